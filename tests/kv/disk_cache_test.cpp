// The cache with a disk below it: what a process computed, the next one has, and a broken disk costs nothing but that.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "kv/cache.h"
#include "kv/folder_support.h"
#include "kv/hashed_cache.h"

namespace tempo9::kv {
namespace {

using testing::counting;
using testing::FaultyFiles;
using testing::files_below;
using testing::joined;
using testing::kFull;
using testing::kSliding;
using testing::read_bytes;
using testing::run;
using testing::TempFolder;
using testing::Tokens;
using testing::write_bytes;
using testing::Writer;

CacheOptions options_of(const std::string& root) {
  return {.type = tensor::KvType::kF32,
          .max_tokens = 32 * 100,
          .max_sequences = 4,
          .max_kept_pages = 80,
          .max_kept_states = 10,
          .disk = {.root = root,
                   .cap_bytes = 10'000'000,
                   .min_free_bytes = 0,
                   .identity = "a model",
                   .min_segment_bytes = 0,
                   .max_segment_bytes = 2000}};
}

// What a process does: a text, up to the moment when all of it is on disk.
void write_text(const CacheOptions& options, const std::vector<tensor::KvLayerSpec>& layers, bool has_state,
                const Tokens& text) {
  Writer writer(layers, has_state, options);
  writer.cache().remove_and_keep(run(writer, text).first, text);
  writer.cache().settle_disk();
}

class DiskCache : public ::testing::TestWithParam<std::vector<tensor::KvLayerSpec>> {};

TEST_P(DiskCache, TheNextProcessGoesOnWhereTheLastOneEnded) {
  const TempFolder temp;
  const Tokens text = counting(500);
  write_text(options_of(temp.path()), GetParam(), false, text);
  Writer writer(GetParam(), false, options_of(temp.path()));
  EXPECT_EQ(run(writer, joined(text, counting(100, 1000))).second, 480);  // whole pages
  EXPECT_EQ(writer.cache().stats().restored_pages, 15u);
  EXPECT_GT(writer.cache().stats().restored_spans, 1u);
  EXPECT_EQ(run(writer, joined(counting(200), counting(100, 1000))).second, 200);  // in memory now
  EXPECT_EQ(writer.cache().stats().restored_pages, 15u);
  Writer other(GetParam(), false, options_of(temp.path()));
  EXPECT_GE(run(other, joined(counting(200), counting(100, 1000))).second, 192);
}

TEST_P(DiskCache, RecurrentLayersGoOnFromAStateOnDisk) {
  const TempFolder temp;
  const Tokens text = counting(500);
  write_text(options_of(temp.path()), GetParam(), true, text);
  Writer writer(GetParam(), true, options_of(temp.path()));
  EXPECT_EQ(run(writer, joined(text, counting(100, 1000))).second, 500);  // its state, in the middle of a page
  Writer other(GetParam(), true, options_of(temp.path()));
  EXPECT_EQ(run(other, joined(counting(200), counting(100, 1000))).second, 0);  // there is no state before
}

TEST_P(DiskCache, ATextGrowsOverProcesses) {
  const TempFolder temp;
  Tokens text;
  for (int turn = 1; turn <= 5; ++turn) {
    text = joined(text, counting(150, 1000 * turn));
    Writer writer(GetParam(), false, options_of(temp.path()));
    writer.cache().remove_and_keep(run(writer, text).first, text);
    writer.cache().settle_disk();
    EXPECT_EQ(writer.cache().stats().disk.failed_writes, 0u);
  }
  Writer writer(GetParam(), false, options_of(temp.path()));
  EXPECT_EQ(run(writer, text).second, std::ssize(text) / 32 * 32);
}

INSTANTIATE_TEST_SUITE_P(Layers, DiskCache,
                         ::testing::Values(std::vector{kFull}, std::vector{kFull, kSliding}, std::vector{kSliding}));

TEST(DiskCacheLimits, WhatMemoryEvictsIsStillThere) {
  const TempFolder temp;
  CacheOptions options = options_of(temp.path());
  options.max_kept_pages = 20;
  Writer writer({kFull}, false, options);
  const Tokens first = counting(500), second = counting(500, 5000);
  for (const Tokens& text : {first, second}) {
    writer.cache().remove_and_keep(run(writer, text).first, text);
    writer.cache().settle_disk();
  }
  EXPECT_GT(writer.cache().stats().evictions, 0u);
  EXPECT_EQ(run(writer, first).second, 480);
}

TEST(DiskCacheLimits, AnIdleCacheGivesItsMemoryBackAndHasItsTextsStill) {
  const TempFolder temp;
  for (const bool has_state : {false, true}) {
    Writer writer({kFull, kSliding}, has_state, options_of(temp.path()));
    const Tokens text = counting(500);
    const Tokens other = joined(counting(200), counting(300, 1000));
    for (const Tokens& each : {text, other}) writer.cache().remove_and_keep(run(writer, each).first, each);
    writer.cache().settle_disk();
    const SequenceId running = run(writer, counting(100)).first;
    writer.cache().release_restorable();
    EXPECT_LE(writer.cache().stats().pages_kept, 4);  // those that a sequence uses
    EXPECT_EQ(writer.cache().stats().resident_bytes, 4 * writer.cache().stats().bytes_per_page);
    writer.check(running, counting(100), 100);
    writer.cache().remove_sequence(running);
    EXPECT_EQ(run(writer, joined(text, counting(9, 7000))).second, has_state ? 500 : 480);
  }
}

TEST(DiskCacheLimits, SmallRunsWaitForMore) {
  const TempFolder temp;
  CacheOptions options = options_of(temp.path());
  options.disk.min_segment_bytes = 1000;  // three pages
  options.disk.max_segment_bytes = 100'000;
  Tokens text = counting(64);
  write_text(options, {kFull}, false, text);
  EXPECT_TRUE(files_below(temp.path()).empty());
  text = counting(100);
  write_text(options, {kFull}, false, text);
  EXPECT_EQ(files_below(temp.path()).size(), 1u);
}

TEST(DiskCacheFaults, ADamagedFileIsComputedAgain) {
  const TempFolder temp;
  const Tokens text = counting(500);
  for (size_t damage = 0; damage < 20; ++damage) {
    write_text(options_of(temp.path()), {kFull, kSliding}, false, text);
    const auto files = files_below(temp.path());
    const auto& path = files[damage % files.size()];
    std::string bytes = read_bytes(path);
    if (damage % 3 == 0) bytes.resize(bytes.size() / 2);
    if (damage % 3 == 1) bytes[damage * 7919 % bytes.size()] ^= 4;
    write_bytes(path, bytes);
    if (damage % 3 == 2) std::filesystem::remove(path);
    Writer writer({kFull, kSliding}, false, options_of(temp.path()));
    EXPECT_LT(run(writer, text).second, 480);  // run() compares with what it should be
  }
}

TEST(DiskCacheFaults, AnotherModelsCacheIsNotRead) {
  const TempFolder temp;
  const Tokens text = counting(500);
  write_text(options_of(temp.path()), {kFull}, false, text);
  CacheOptions options = options_of(temp.path());
  options.disk.identity = "another model";
  Writer other({kFull}, false, options);
  EXPECT_EQ(run(other, text).second, 0);
  Writer other_layout({kFull, kSliding}, false, options_of(temp.path()));
  EXPECT_EQ(run(other_layout, text).second, 0);
  CacheOptions of_another_type = options_of(temp.path());
  of_another_type.type = tensor::KvType::kQ8_0;  // of the same size with this backend
  Writer other_type({kFull}, false, of_another_type);
  EXPECT_EQ(run(other_type, text).second, 0);
  Writer same({kFull}, false, options_of(temp.path()));
  EXPECT_GT(run(same, text).second, 0);
}

// Every call in turn fails, from the start or later: one line for the log, and answers as without a disk.
TEST(DiskCacheFaults, ABrokenDiskIsSaidOnceAndDoesNoHarm) {
  const Tokens text = counting(500);
  for (const char* call : {"make_folders", "lock", "list", "create", "resize", "write", "rename", "open", "read"}) {
    for (const bool is_broken_at_start : {true, false}) {
      const TempFolder temp;
      FaultyFiles files;
      std::atomic<bool> is_broken = is_broken_at_start;
      files.fails = [&](const std::string& made) { return is_broken && made == call; };
      CacheOptions options = options_of(temp.path());
      options.disk.files = &files;
      Writer writer({kFull}, false, options);
      int n_lines = 0;
      for (int32_t i = 0; i < 6; ++i) {
        const Tokens other = joined(text, counting(200, 1000 * (i + 1)));
        writer.cache().remove_and_keep(run(writer, other).first, other);
        writer.cache().settle_disk();
        if (writer.cache().take_disk_problem()) ++n_lines;
        is_broken = true;
      }
      Writer after({kFull}, false, options);
      run(after, text);
      const bool is_reading = std::string_view(call) == "open" || std::string_view(call) == "read";
      EXPECT_EQ(n_lines, is_reading ? 0 : 1) << call << " " << is_broken_at_start;
    }
  }
}

TEST(DiskCacheFaults, AFolderThatCannotBeMadeOrVanishes) {
  const TempFolder temp;
  write_bytes(temp.path() + "/file", "in the way");
  Writer none({kFull}, false, options_of(temp.path() + "/file"));
  const Tokens text = counting(500);
  EXPECT_TRUE(none.cache().take_disk_problem());
  none.cache().remove_and_keep(run(none, text).first, text);
  none.cache().settle_disk();
  EXPECT_FALSE(none.cache().take_disk_problem());
  EXPECT_EQ(read_bytes(temp.path() + "/file"), "in the way");

  const std::string root = temp.path() + "/kv";
  write_text(options_of(root), {kFull}, false, text);
  Writer writer({kFull}, false, options_of(root));
  std::filesystem::remove_all(root);
  const Tokens other = joined(text, counting(200, 2000));
  const auto [id, n_reused] = run(writer, other);
  EXPECT_EQ(n_reused, 0);
  writer.cache().remove_and_keep(id, other);
  writer.cache().settle_disk();
  EXPECT_FALSE(files_below(root).empty());  // made again
}

TEST(DiskCacheFaults, TwoProcessesShareAFolder) {
  const TempFolder temp;
  CacheOptions options = options_of(temp.path());
  options.disk.cap_bytes = 30'000;
  Writer a({kFull}, false, options);
  Writer b({kFull}, false, options);
  for (int32_t i = 0; i < 30; ++i) {
    for (Writer* writer : {&a, &b}) {
      const Tokens text = joined(counting(100), counting(300, 1000 * (i % 7)));
      writer->cache().remove_and_keep(run(*writer, text).first, text);
    }
    if (i % 5 != 4) continue;
    a.cache().settle_disk();
    b.cache().settle_disk();
    EXPECT_LE(testing::bytes_below(temp.path()), options.disk.cap_bytes);
  }
  EXPECT_EQ(a.cache().stats().disk.damaged_segments + b.cache().stats().disk.damaged_segments, 0u);
}

}  // namespace
}  // namespace tempo9::kv
