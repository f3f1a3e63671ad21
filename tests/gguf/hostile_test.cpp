// Files made to break a reader. Ids in the names are those of spec gguf 1.6.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "gguf/file.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace tempo9::gguf {
namespace {

// A file byte by byte.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    data_.insert(data_.end(), begin, begin + sizeof value);
    return *this;
  }
  Bytes& text(std::string_view s) {
    put(static_cast<uint64_t>(s.size()));
    return raw(s);
  }
  Bytes& raw(std::string_view s) {
    for (const char c : s) data_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes& header(uint64_t n_tensors, uint64_t n_pairs, uint32_t version = 3) {
    return raw("GGUF").put(version).put(n_tensors).put(n_pairs);
  }
  Bytes& tensor(std::string_view name, std::vector<uint64_t> ne, uint32_t type, uint64_t offset) {
    text(name).put(static_cast<uint32_t>(ne.size()));
    for (const uint64_t n : ne) put(n);
    return put(type).put(offset);
  }
  Bytes& pad(size_t n) {
    data_.resize(data_.size() + n);
    return *this;
  }
  std::string error() const {
    const auto file = File::parse(data_, "f");
    return file ? "" : file.error().message();
  }
  const std::vector<std::byte>& data() const { return data_; }

 private:
  std::vector<std::byte> data_;
};

void expect_error(const Bytes& bytes, std::string_view part) {
  EXPECT_NE(bytes.error().find(part), std::string::npos) << "got: " << bytes.error() << "\nwant: " << part;
}

TEST(HostileFile, NamesWhatIsNoGguf) {
  expect_error(Bytes().raw("version https://git-lfs.github.com/spec/v1\noid"), "Git LFS");
  expect_error(Bytes().raw("<!DOCTYPE html><html></html>"), "HTML");
  expect_error(Bytes().raw("{\"error\":\"Repository not found\"}"), "JSON");
  expect_error(Bytes().raw("tjgg").pad(40), "legacy");
  expect_error(Bytes().raw("FUGG").pad(40), "big-endian");
  expect_error(Bytes().raw("PK\x03\x04").pad(40), "not a GGUF");
  expect_error(Bytes().raw("GGU"), "too short");
  expect_error(Bytes().header(0, 0, 0), "version 0");
  expect_error(Bytes().header(0, 0, 1), "version 1 is not supported");
  expect_error(Bytes().header(0, 0, 4), "newer than supported");
  expect_error(Bytes().header(0, 0, 0x03000000), "big-endian");
  EXPECT_EQ(Bytes().header(0, 0, 2).error(), "");
  EXPECT_EQ(Bytes().header(0, 0, 3).error(), "");
}

TEST(HostileFile, CountsAreHeldAgainstTheBytesLeft) {
  for (const uint64_t n :
       {uint64_t{1}, uint64_t{0x7FFFFFFF}, uint64_t{1} << 32, (uint64_t{1} << 63) - 1, ~uint64_t{0}}) {
    expect_error(Bytes().header(n, 0), "tensors");
    expect_error(Bytes().header(0, n), "metadata pairs");
    expect_error(Bytes().header(0, 1).put(n).pad(64), n == 1 ? "printable" : "metadata key");
    expect_error(Bytes().header(0, 1).text("k").put(uint32_t{8}).put(n), "metadata k");
    for (uint32_t type = 0; type <= 12; ++type) {
      if (type == 9) continue;
      expect_error(Bytes().header(0, 1).text("k").put(uint32_t{9}).put(type).put(n), "metadata k");
    }
  }
}

TEST(HostileFile, KeysAndNames) {
  expect_error(Bytes().header(0, 1).text("").put(uint32_t{4}).put(1).pad(8), "empty");
  expect_error(Bytes().header(0, 1).text(std::string_view("a\0b", 3)).put(uint32_t{4}).put(1), "printable");
  expect_error(
      Bytes().header(0, 2).text("k").put(uint32_t{0}).put(uint8_t{1}).text("k").put(uint32_t{0}).put(uint8_t{1}),
      "twice");
  expect_error(Bytes().header(1, 0).tensor(std::string(64, 'a'), {32}, 0, 0).pad(200), "63 bytes");
  expect_error(Bytes().header(1, 0).tensor("a b", {32}, 0, 0).pad(200), "printable");
  expect_error(Bytes().header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad(200), "twice");
}

TEST(HostileFile, ValuesAndArrays) {
  expect_error(Bytes().header(0, 1).text("k").put(uint32_t{13}).pad(8), "unknown value type 13");
  expect_error(Bytes().header(0, 1).text("k").put(uint32_t{7}).put(uint8_t{2}), "bool byte is 2");
  expect_error(Bytes().header(0, 1).text("k").put(uint32_t{9}).put(uint32_t{9}).put(uint64_t{1}).pad(20), "nested");
  expect_error(Bytes().header(0, 1).text("k").put(uint32_t{9}).put(uint32_t{13}).put(uint64_t{1}).pad(20),
               "element type");
  EXPECT_EQ(Bytes().header(0, 1).text("k").put(uint32_t{9}).put(uint32_t{8}).put(uint64_t{0}).error(), "");
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 131072u, 0x80000000u}) {
    expect_error(Bytes().header(0, 1).text("general.alignment").put(uint32_t{4}).put(alignment), "power of two");
  }
  expect_error(Bytes().header(0, 1).text("general.alignment").put(uint32_t{10}).put(uint64_t{32}), "expected u32");
}

TEST(HostileFile, TensorRecords) {
  const auto one = [](std::vector<uint64_t> ne, uint32_t type, uint64_t offset) {
    return Bytes().header(1, 0).tensor("t", std::move(ne), type, offset).pad(300);
  };
  EXPECT_EQ(one({32}, 0, 0).error(), "");
  EXPECT_EQ(one({2, 2, 2, 2}, 0, 0).error(), "");
  expect_error(one({}, 0, 0), "0 dimensions");
  expect_error(one({1, 1, 1, 1, 1}, 0, 0), "5 dimensions");
  expect_error(one({0}, 0, 0), "zero or too large");
  expect_error(one({uint64_t{1} << 63}, 0, 0), "zero or too large");
  expect_error(one({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), "too large");
  expect_error(one({uint64_t{1} << 62, 4}, 0, 0), "too large");
  expect_error(one({uint64_t{1} << 61, 2}, 28, 0), "64 bits");
  expect_error(one({33}, 2, 0), "multiple of 32");
  expect_error(one({255}, 12, 0), "multiple of 256");
  expect_error(one({32}, 4, 0), "removed");
  expect_error(one({32}, 31, 0), "removed");
  expect_error(one({32}, 43, 0), "unknown type 43");
  expect_error(one({32}, 139, 0), "IQ4_K");
  expect_error(one({32}, 0, 8), "alignment");
  expect_error(one({32}, 0, ~uint64_t{0} - 31), "past the end");
  expect_error(one({32}, 0, 320), "past the end");
  expect_error(one({1024}, 0, 0), "past the end");
  expect_error(Bytes().header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).pad(300), "overlap");
  expect_error(Bytes().header(2, 0).tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 0).pad(300), "overlap");
}

// Every prefix of a small valid file is refused or (behind the last tensor's bytes) accepted, and never reads outside.
TEST(HostileFile, TruncatedAnywhere) {
  Writer writer;
  writer.add("general.architecture", Scalar(std::string("llama")));
  writer.add("names", Array(std::vector<std::string>{"a", "bb"}));
  writer.add("numbers", Array(std::vector<float>{1, 2}));
  writer.add_tensor("t", tensor::DType::kF32, {8}, std::vector<std::byte>(32));
  const auto whole = writer.bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(File::parse(cut, "f")) << n;
  }
  EXPECT_TRUE(File::parse(whole, "f"));
}

// Any 8 bytes replaced by an extreme number: refused or read, never a crash (the sanitizers watch).
TEST(HostileFile, ExtremeNumbersAnywhere) {
  Writer writer;
  writer.add("names", Array(std::vector<std::string>{"a", "bb"}));
  writer.add("u", Scalar(uint32_t{1}));
  writer.add_tensor("t", tensor::DType::kQ4_0, {32, 2}, std::vector<std::byte>(36));
  const auto whole = writer.bytes();
  const uint64_t extremes[] = {
      0,           1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, uint64_t{1} << 32, (uint64_t{1} << 63) - 1, uint64_t{1} << 63,
      ~uint64_t{0}};
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const uint64_t value : extremes) {
      auto changed = whole;
      std::memcpy(changed.data() + at, &value, 8);
      (void)File::parse(changed, "f");
    }
  }
}

}  // namespace
}  // namespace tempo9::gguf
