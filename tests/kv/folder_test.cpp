// Segments and the folder they lie in: whatever happens to the files, what is read is what was written, or nothing.
#include "kv/disk/folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "kv/disk/index.h"
#include "kv/folder_support.h"

namespace tempo9::kv::disk {
namespace {

using testing::bytes_below;
using testing::FaultyFiles;
using testing::files_below;
using testing::read_bytes;
using testing::TempFolder;
using testing::write_bytes;

const Geometry kGeometry{
    .layers = {{.k = 20, .v = 12, .pool = 0}, {.k = 8, .v = 8, .pool = 1}}, .n_pools = 2, .state_bytes = 40};
const Config kConfig = hash_config("a model");

FolderOptions options_of(const std::string& root, uint64_t cap_bytes = 1'000'000) {
  return {.root = root, .config = kConfig, .geometry = kGeometry, .cap_bytes = cap_bytes, .min_free_bytes = 0};
}

SegmentHead make_head(int32_t text, int64_t n_tokens = 70, int64_t first_page = 1) {
  SegmentHead head{.tokens = {}, .first_page = first_page, .has_state = text % 2 == 1, .present = {}};
  for (int64_t i = 0; i < n_tokens; ++i) head.tokens.push_back(text * 1000 + static_cast<int32_t>(i));
  const int64_t n_pages = (n_tokens + 31) / 32 - first_page;
  for (int64_t page = 0; page < n_pages; ++page) {
    head.present.push_back(true);
    head.present.push_back(page % 2 == 0);
  }
  return head;
}

// Bytes that a text's tokens decide.
std::vector<std::byte> payload_of(const SegmentHead& head) {
  std::vector<std::byte> bytes(payload_bytes(head, kGeometry));
  std::mt19937 random(static_cast<uint32_t>(head.tokens[0]));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Result<std::string> write(Folder& folder, const SegmentHead& head) {
  T9_TRY(writer, folder.begin(head));
  const std::vector<std::byte> payload = payload_of(head);
  const auto half = payload.size() / 2;
  T9_TRY_VOID(writer->add(std::span(payload).first(half)));
  T9_TRY_VOID(writer->add(std::span(payload).subspan(half)));
  T9_TRY(name, writer->finish());
  folder.touch({&name, 1});
  return name;
}

void expect_right(const Contents& contents) {
  const std::vector<std::byte> expected = payload_of(contents.head);
  ASSERT_EQ(contents.payload.size(), expected.size());
  EXPECT_EQ(std::memcmp(contents.payload.data(), expected.data(), expected.size()), 0);
}

TEST(DiskFolder, GivesBackWhatWasWritten) {
  const TempFolder temp;
  std::vector<std::string> names;
  {
    Folder folder(real_file_system(), options_of(temp.path()));
    ASSERT_TRUE(folder.open());
    for (int32_t text = 1; text <= 4; ++text) names.push_back(write(folder, make_head(text)).value());
  }
  Folder folder(real_file_system(), options_of(temp.path()));
  const auto found = folder.open().value();
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(folder.total_bytes(), bytes_below(temp.path()));
  for (const FoundSegment& segment : found) {
    EXPECT_NE(std::ranges::find(names, segment.name), names.end());
    const Contents contents = folder.read(segment.name).value();
    EXPECT_EQ(contents.head.tokens, segment.head.tokens);
    EXPECT_EQ(contents.head.first_page, 1);
    EXPECT_EQ(contents.head.has_state, segment.head.has_state);
    EXPECT_EQ(contents.head.present, segment.head.present);
    expect_right(contents);
  }
}

// The one file of a folder, damaged in some way: it must read as nothing, and be gone afterwards.
void expect_nothing(const std::string& root) {
  Folder folder(real_file_system(), options_of(root));
  const std::vector<FoundSegment> found = folder.open().value();
  for (const FoundSegment& segment : found) {
    const auto contents = folder.read(segment.name);
    EXPECT_FALSE(contents.has_value());
  }
  EXPECT_TRUE(files_below(root).empty());
  EXPECT_EQ(folder.n_damaged(), 1u);
}

TEST(DiskFolder, AFlippedByteAnywhereMakesASegmentUnreadable) {
  const TempFolder temp;
  {
    Folder folder(real_file_system(), options_of(temp.path()));
    ASSERT_TRUE(write(folder, make_head(3)));
  }
  const auto path = files_below(temp.path()).front();
  const std::string bytes = read_bytes(path);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    write_bytes(path, flipped);
    expect_nothing(temp.path());
    if (HasFailure()) FAIL() << "byte " << i;
  }
}

TEST(DiskFolder, ACutOrLongerFileIsUnreadable) {
  const TempFolder temp;
  {
    Folder folder(real_file_system(), options_of(temp.path()));
    ASSERT_TRUE(write(folder, make_head(3)));
  }
  const auto path = files_below(temp.path()).front();
  const std::string bytes = read_bytes(path);
  for (size_t n = 0; n < bytes.size(); ++n) {
    write_bytes(path, bytes.substr(0, n));
    expect_nothing(temp.path());
    if (HasFailure()) FAIL() << n << " bytes";
  }
  write_bytes(path, bytes + "x");
  expect_nothing(temp.path());
}

TEST(DiskFolder, DamageAfterTheIndexWasReadIsNoticedToo) {
  const TempFolder temp;
  Folder folder(real_file_system(), options_of(temp.path()));
  const std::string name = write(folder, make_head(2)).value();
  const auto path = files_below(temp.path()).front();
  std::string bytes = read_bytes(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(path, bytes);
  EXPECT_EQ(folder.read(name).error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(folder.read(name).error().code(), ErrorCode::kNotFound);
}

TEST(DiskFolder, OtherModelsAndVersionsAreNotRead) {
  const TempFolder temp;
  Folder folder(real_file_system(), options_of(temp.path()));
  ASSERT_TRUE(write(folder, make_head(1)));
  FolderOptions other = options_of(temp.path());
  other.config = hash_config("another model");
  EXPECT_TRUE(Folder(real_file_system(), other).open().value().empty());
  // The same file under the other's name, as if two configurations had one hash.
  const auto path = files_below(temp.path()).front();
  const auto moved = std::filesystem::path(temp.path()) / to_hex(other.config) / path.filename();
  std::filesystem::rename(path, moved);
  EXPECT_TRUE(Folder(real_file_system(), other).open().value().empty());
  EXPECT_TRUE(files_below(temp.path()).empty());
}

TEST(DiskFolder, StaysBelowItsCapTheOldestGoFirst) {
  const TempFolder temp;
  const uint64_t one = encoded_bytes(make_head(2)) + payload_bytes(make_head(2), kGeometry);
  const uint64_t cap = 5 * one + one / 2;
  Folder folder(real_file_system(), options_of(temp.path(), cap));
  ASSERT_TRUE(folder.open());
  std::vector<std::string> names;
  for (int32_t text = 2; text <= 20; text += 2) {
    names.push_back(write(folder, make_head(text)).value());
    if (names.size() > 1) folder.touch(std::span(names).first(1));  // the first is used all the time
    EXPECT_LE(bytes_below(temp.path()), cap);
  }
  EXPECT_EQ(folder.take_evicted(), std::vector(names.begin() + 1, names.begin() + 6));
  EXPECT_TRUE(folder.read(names[0]));
  EXPECT_FALSE(folder.read(names[1]));
  EXPECT_EQ(folder.begin(make_head(2, 32 * 1000, 0)).error().code(), ErrorCode::kOutOfCapacity);
  EXPECT_EQ(files_below(temp.path()).size(), 5u);
}

TEST(DiskFolder, WhatOthersLeftMakesRoomFirst) {
  const TempFolder temp;
  const uint64_t one = encoded_bytes(make_head(2)) + payload_bytes(make_head(2), kGeometry);
  FolderOptions other = options_of(temp.path(), 100 * one);
  other.config = hash_config("another model");
  Folder old(real_file_system(), other);
  for (int32_t text = 2; text <= 8; text += 2) ASSERT_TRUE(write(old, make_head(text)));
  const std::string notes = temp.path() + "/notes.txt";
  write_bytes(notes, "not ours");
  write_bytes(temp.path() + "/" + to_hex(other.config) + "/crashed.t9kv.tmp", std::string(one, 'x'));
  Folder folder(real_file_system(), options_of(temp.path(), 3 * one));
  ASSERT_TRUE(folder.open());
  for (int32_t text = 2; text <= 8; text += 2) {
    ASSERT_TRUE(write(folder, make_head(text)));
    EXPECT_LE(bytes_below(temp.path()), 3 * one);
  }
  EXPECT_TRUE(old.open().value().empty());
  EXPECT_EQ(read_bytes(notes), "not ours");
}

TEST(DiskFolder, TheFileSystemIsNotFilledUp) {
  const TempFolder temp;
  FolderOptions options = options_of(temp.path());
  options.min_free_bytes = uint64_t{1} << 60;
  Folder folder(real_file_system(), options);
  EXPECT_EQ(folder.begin(make_head(2)).error().code(), ErrorCode::kOutOfCapacity);
  EXPECT_TRUE(files_below(temp.path()).empty());
}

TEST(DiskFolder, AWriteThatFailsLeavesNothingBehind) {
  for (const char* call : {"make_folders", "lock", "list", "free_bytes", "create", "resize", "write", "rename"}) {
    const TempFolder temp;
    FaultyFiles files;
    Folder folder(files, options_of(temp.path()));
    ASSERT_TRUE(folder.open());
    ASSERT_TRUE(write(folder, make_head(1)));
    files.fails = [&](const std::string& made) { return made == call; };
    EXPECT_FALSE(write(folder, make_head(2))) << call;
    EXPECT_EQ(files_below(temp.path()).size(), 1u) << call;
    files.fails = [](const std::string&) { return false; };
    EXPECT_TRUE(write(folder, make_head(3))) << call;
    EXPECT_EQ(folder.open().value().size(), 2u) << call;
  }
}

TEST(DiskFolder, AFileThatIsBeingWrittenIsNotTakenAway) {
  const TempFolder temp;
  const uint64_t one = encoded_bytes(make_head(2)) + payload_bytes(make_head(2), kGeometry);
  Folder first(real_file_system(), options_of(temp.path(), one + one / 2));
  Folder second(real_file_system(), options_of(temp.path(), one + one / 2));
  auto writer = first.begin(make_head(2)).value();
  ASSERT_TRUE(second.open());
  EXPECT_FALSE(second.begin(make_head(4)));
  ASSERT_TRUE(writer->add(payload_of(make_head(2))));
  const std::string name = writer->finish().value();
  writer.reset();
  expect_right(second.read(name).value());
  EXPECT_TRUE(write(second, make_head(4)));
  EXPECT_FALSE(first.read(name));  // it made room
}

// Two processes write, read and evict in one folder; one is killed again and again.
TEST(DiskFolder, SurvivesBeingKilledAtAnyMoment) {
  const TempFolder temp;
  constexpr uint64_t kCap = 20'000;
  Folder survivor(real_file_system(), options_of(temp.path(), kCap));
  std::mt19937 random(1);
  size_t n_found = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Folder folder(real_file_system(), options_of(temp.path(), kCap));
      (void)folder.open();
      for (int32_t text = 0;; ++text) (void)write(folder, make_head(text % 97 + 1, 70 + text % 200));
    }
    for (auto n = random() % 20; n > 0; --n) {
      (void)write(survivor, make_head(static_cast<int32_t>(random() % 97 + 1)));
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    Folder folder(real_file_system(), options_of(temp.path(), kCap));
    const std::vector<FoundSegment> found = folder.open().value();
    for (const FoundSegment& segment : found) {
      const auto contents = folder.read(segment.name);
      ASSERT_TRUE(contents) << contents.error().message();
      expect_right(*contents);
      ++n_found;
    }
    EXPECT_EQ(folder.n_damaged(), 0u);
    EXPECT_LE(bytes_below(temp.path()), kCap);
  }
  EXPECT_GT(n_found, 100u);
}

TEST(DiskIndex, MatchesByTokensAndKeepsItsPlaceWhenPartsGo) {
  Index index(2);
  SegmentHead whole = make_head(2, 64, 0);
  SegmentHead later = make_head(2, 150, 2);
  later.has_state = true;
  const SegmentId a = index.add("a", whole).value();
  const SegmentId b = index.add("b", later).value();
  EXPECT_FALSE(index.add("c", whole));
  EXPECT_EQ(index.n_segments(), 2);
  std::vector<int32_t> text = later.tokens;
  text.resize(200, 5);
  auto pages = index.match(text);
  ASSERT_EQ(pages.size(), 5u);
  EXPECT_EQ(pages[1].pages, a);
  EXPECT_EQ(pages[2].pages, b);
  EXPECT_EQ(pages[4].n_tokens, 150);
  EXPECT_EQ(pages[4].state, b);
  EXPECT_FALSE(pages[3].state);
  text[70] = -1;
  EXPECT_EQ(index.match(text).size(), 2u);
  index.remove(a);
  EXPECT_FALSE(index.match(later.tokens)[0].pages);
  EXPECT_EQ(index.match(later.tokens)[3].pages, b);
  EXPECT_TRUE(index.add("a again", whole));
  index.remove(b);
  EXPECT_EQ(index.n_pages(), 2);
  index.remove(*index.find("a again"));
  EXPECT_EQ(index.n_pages(), 0);
  EXPECT_EQ(index.n_segments(), 0);
}

}  // namespace
}  // namespace tempo9::kv::disk
