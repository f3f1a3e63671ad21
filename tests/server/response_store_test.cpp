#include "server/response_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tempo9::server {
namespace {

StoredResponse response(const std::string& id, size_t n_bytes = 0) {
  return {.id = id,
          .object = R"({"id":")" + id + "\"}",
          .items = R"({"id":"msg_)" + id + R"(","text":")" + std::string(n_bytes, 'x') + "\"}"};
}

TEST(ResponseStore, GivesBackWhatWasPut) {
  ResponseStore store(4, 1 << 20);
  store.put(response("a"));
  const auto found = store.find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->object, R"({"id":"a"})");
  EXPECT_FALSE(store.find("b"));
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_FALSE(store.find("a"));
  EXPECT_EQ(found->id, "a") << "who holds it keeps it";
}

TEST(ResponseStore, TheLeastRecentlyUsedGoesFirst) {
  ResponseStore store(3, 1 << 20);
  for (const char* id : {"a", "b", "c"}) store.put(response(id));
  EXPECT_TRUE(store.find("a"));
  store.put(response("d"));
  EXPECT_TRUE(store.find("a"));
  EXPECT_FALSE(store.find("b"));
  EXPECT_TRUE(store.find("c"));
  EXPECT_TRUE(store.find("d"));
}

TEST(ResponseStore, BytesAreBounded) {
  ResponseStore store(64, 1000);
  for (const char* id : {"a", "b", "c"}) store.put(response(id, 400));
  EXPECT_FALSE(store.find("a"));
  EXPECT_TRUE(store.find("b"));
  EXPECT_TRUE(store.find("c"));
  store.put(response("d", 2000));
  EXPECT_FALSE(store.find("d")) << "one that is larger than everything allowed";
  EXPECT_TRUE(store.find("c"));
  store.put(response("b", 10));
  EXPECT_EQ(store.find("b")->items.size(), response("b", 10).items.size()) << "the same id again";
}

TEST(ResponseStore, ItemsAreFoundByTheirIds) {
  ResponseStore store(4, 1 << 20);
  store.put(response("a", 3));
  store.put({.id = "b", .object = "{}", .items = R"({"text":"msg_q"},{"id":"msg_z","n":1})"});
  EXPECT_EQ(store.find_item("msg_a")->at("text"), "xxx");
  EXPECT_EQ(store.find_item("msg_z")->at("n"), 1);
  EXPECT_FALSE(store.find_item("msg_q"));
}

TEST(ResponseStore, ManyThreadsMayUseIt) {
  ResponseStore store(8, 1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = std::to_string((t + i) % 16);
        store.put(response(id));
        if (const auto found = store.find(id)) {
          EXPECT_EQ(found->id, id);
        }
        store.erase(std::to_string(i % 16));
        store.find_item("msg_" + id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tempo9::server
