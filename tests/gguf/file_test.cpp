#include "gguf/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gguf/writer.h"
#include "support/data.h"

namespace tempo9::gguf {
namespace {

std::vector<std::byte> floats(std::initializer_list<float> values) {
  std::vector<std::byte> out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tempo9-gguf-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

TEST(File, ReadsWhatTheWriterWrote) {
  Writer writer(64);
  writer.add("general.alignment", Scalar(uint32_t{64}));
  writer.add("a.u8", Scalar(uint8_t{200}));
  writer.add("a.i64", Scalar(int64_t{-5}));
  writer.add("a.f64", Scalar(2.5));
  writer.add("a.bool", Scalar(true));
  writer.add("a.text", Scalar(std::string("a\0b", 3)));
  writer.add("a.names", Array(std::vector<std::string>{"x", "", "yy"}));
  writer.add("a.flags", Array(std::vector<bool>{true, false, true}));
  writer.add("a.empty", Array(std::vector<int32_t>{}));
  writer.add_tensor("w", tensor::DType::kF32, {2, 3}, floats({1, 2, 3, 4, 5, 6}));
  writer.add_tensor("v", tensor::DType::kF32, {1}, floats({7}));
  const auto bytes = writer.bytes();
  const auto file = File::parse(bytes, "memory");
  ASSERT_TRUE(file) << file.error().message();
  const Metadata& metadata = (*file)->metadata();
  EXPECT_EQ(*metadata.read_int("a.u8"), 200);
  EXPECT_EQ(*metadata.read_int("a.i64"), -5);
  EXPECT_EQ(*metadata.read_float("a.f64"), 2.5);
  EXPECT_EQ(*metadata.read_float("a.u8"), 200.0);
  EXPECT_TRUE(*metadata.read_bool("a.bool"));
  EXPECT_EQ(*metadata.read_string("a.text"), std::string("a\0b", 3));
  EXPECT_EQ(metadata.read_strings("a.names")->size(), 3u);
  EXPECT_EQ(*metadata.read_bools("a.flags"), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(metadata.read_ints("a.empty")->empty());
  const TensorInfo* w = (*file)->find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->offset % 64, 0u);
  const auto view = (*file)->view(*w);
  EXPECT_EQ(view.cols, 2);
  EXPECT_EQ(view.rows, 3);
  float last = 0;
  std::memcpy(&last, view.row(2) + 4, 4);
  EXPECT_EQ(last, 6.0f);
  EXPECT_EQ((*file)->find_tensor("none"), nullptr);
}

TEST(Metadata, ReadersNameTheKeyAndWhatTheyFound) {
  Metadata metadata;
  ASSERT_TRUE(metadata.insert("big", Scalar(~uint64_t{0})));
  ASSERT_TRUE(metadata.insert("text", Scalar(std::string("x"))));
  ASSERT_TRUE(metadata.insert("inf", Scalar(std::numeric_limits<float>::infinity())));
  EXPECT_FALSE(metadata.insert("text", Scalar(true)));
  EXPECT_NE(metadata.read_int("big").error().message().find("big"), std::string::npos);
  EXPECT_NE(metadata.read_int("text").error().message().find("found string"), std::string::npos);
  EXPECT_FALSE(metadata.read_float("inf"));
  EXPECT_EQ(metadata.read_int("none").error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(metadata.find_int("none")->has_value());
  EXPECT_FALSE(metadata.find_int("text"));
}

TEST(Metadata, PerLayerKeysMayBeScalarOrArray) {
  Metadata metadata;
  ASSERT_TRUE(metadata.insert("one", Scalar(uint32_t{4})));
  ASSERT_TRUE(metadata.insert("each", Array(std::vector<int32_t>{1, 2, 3})));
  EXPECT_EQ(**metadata.find_int_per_layer("one", 3), (std::vector<int64_t>{4, 4, 4}));
  EXPECT_EQ(**metadata.find_int_per_layer("each", 3), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_FALSE(metadata.find_int_per_layer("each", 4));
  EXPECT_FALSE(metadata.find_int_per_layer("none", 4)->has_value());
}

Writer split_part(int number, int count, const std::string& tensor) {
  Writer writer;
  writer.add("split.no", Scalar(static_cast<uint16_t>(number)));
  writer.add("split.count", Scalar(static_cast<uint16_t>(count)));
  writer.add("split.tensors.count", Scalar(int32_t{2}));
  writer.add_tensor(tensor, tensor::DType::kF32, {1}, floats({static_cast<float>(number)}));
  return writer;
}

TEST(SplitFile, JoinsPartsAndSaysWhatIsWrongWithThem) {
  const TemporaryFolder folder;
  const std::string first = folder.file("m-00001-of-00002.gguf"), second = folder.file("m-00002-of-00002.gguf");
  ASSERT_TRUE(split_part(0, 2, "a").write(first));
  auto file = File::open(first);
  ASSERT_FALSE(file);  // the second part is missing
  EXPECT_NE(file.error().message().find("m-00002-of-00002.gguf"), std::string::npos);

  ASSERT_TRUE(split_part(1, 2, "b").write(second));
  file = File::open(first);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ((*file)->n_parts(), 2);
  EXPECT_EQ((*file)->tensors().size(), 2u);
  EXPECT_NE((*file)->find_tensor("b"), nullptr);

  file = File::open(second);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message().find("open the first part"), std::string::npos);

  ASSERT_TRUE(split_part(1, 2, "a").write(second));
  EXPECT_NE(File::open(first).error().message().find("two parts"), std::string::npos);
  ASSERT_TRUE(split_part(0, 2, "b").write(second));
  EXPECT_NE(File::open(first).error().message().find("expected part 2 of 2"), std::string::npos);
  ASSERT_TRUE(split_part(0, 2, "a").write(folder.file("renamed.gguf")));
  EXPECT_NE(File::open(folder.file("renamed.gguf")).error().message().find("must be named"), std::string::npos);
}

TEST(File, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_NE(File::open(folder.file("")).error().message().find("directory"), std::string::npos);
  EXPECT_EQ(File::open(folder.file("none.gguf")).error().code(), ErrorCode::kNotFound);
  ASSERT_EQ(mkfifo(folder.file("pipe.gguf").c_str(), 0600), 0);
  EXPECT_NE(File::open(folder.file("pipe.gguf")).error().message().find("not a regular file"), std::string::npos);
  std::ofstream(folder.file("empty.gguf")).close();
  EXPECT_NE(File::open(folder.file("empty.gguf")).error().message().find("too short"), std::string::npos);
}

TEST(File, OpensEveryGolden) {
  int n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(testing::source_path("tests/goldens"))) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = File::open(entry.path().string());
    EXPECT_TRUE(file) << file.error().message();
    ++n;
  }
  EXPECT_GE(n, 22);
}

}  // namespace
}  // namespace tempo9::gguf
