#include "server/truncation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace tempo9::server {
namespace {

using chat::Role;

// One letter a message: s, u, a, t.
chat::Conversation conversation_of(std::string_view roles) {
  chat::Conversation conversation;
  for (const char c : roles) {
    chat::Message message;
    message.role = c == 's' ? Role::kSystem : c == 'u' ? Role::kUser : c == 'a' ? Role::kAssistant : Role::kTool;
    message.content = std::to_string(conversation.messages.size());
    conversation.messages.push_back(std::move(message));
  }
  return conversation;
}

std::string contents(const chat::Conversation& conversation) {
  std::string text;
  for (const chat::Message& message : conversation.messages) text += message.content;
  return text;
}

TEST(Truncation, PartsAreMessagesAndCallsWithTheirResults) {
  EXPECT_EQ(n_droppable(conversation_of("su")), 0u);
  EXPECT_EQ(n_droppable(conversation_of("suau")), 2u);
  EXPECT_EQ(n_droppable(conversation_of("suattuatu")), 4u);
  EXPECT_EQ(contents(without_oldest(conversation_of("suattu"), 1)), "02345");
  EXPECT_EQ(contents(without_oldest(conversation_of("suattu"), 2)), "05");
  EXPECT_EQ(contents(without_oldest(conversation_of("suatsu"), 2)), "045") << "system messages stay in their places";
}

TEST(Truncation, TheLastCallStaysWithItsResults) {
  EXPECT_EQ(n_droppable(conversation_of("uatt")), 0u);
  EXPECT_EQ(n_droppable(conversation_of("atat")), 1u);
  EXPECT_EQ(contents(without_oldest(conversation_of("atat"), 1)), "23");
}

// An agent at work: the task stays, and what was done for it first goes first.
TEST(Truncation, TheLastMessageOfTheUserStays) {
  EXPECT_EQ(n_droppable(conversation_of("suuatatat")), 3u);
  EXPECT_EQ(contents(without_oldest(conversation_of("suuatatat"), 1)), "02345678");
  EXPECT_EQ(contents(without_oldest(conversation_of("suuatatat"), 2)), "025678");
  EXPECT_EQ(contents(without_oldest(conversation_of("suuatatat"), 3)), "0278");
}

// The longest conversation that fits is found whatever the limit, by few attempts.
TEST(Truncation, DropsAsLittleAsItTakes) {
  const chat::Conversation whole = conversation_of("s" + std::string(100, 'u'));
  for (size_t limit = 1; limit <= 101; ++limit) {
    int n_attempts = 0;
    const auto attempt = [&](const chat::Conversation& conversation) -> Result<size_t> {
      ++n_attempts;
      const size_t n = conversation.messages.size();
      if (n <= limit) return n;
      return fail(Error(ErrorCode::kInvalidInput, "long").with_overflow(static_cast<int64_t>(n), 1));
    };
    const Result<size_t> found = first_that_fits(whole, "id", attempt, attempt(whole));
    if (limit >= 2) {
      ASSERT_TRUE(found) << limit;
      EXPECT_EQ(*found, std::min<size_t>(limit, 100)) << limit;
    } else {
      EXPECT_FALSE(found);
    }
    EXPECT_LE(n_attempts, 10) << limit;
  }
}

TEST(Truncation, WhatTheTemplateRefusesMakesWayForTheNextShorterOne) {
  const chat::Conversation whole = conversation_of("uauau");
  const auto attempt = [](const chat::Conversation& conversation) -> Result<std::string> {
    if (conversation.messages.size() > 4) {
      return fail(Error(ErrorCode::kInvalidInput, "long").with_overflow(5, 4));
    }
    if (conversation.messages.front().role != Role::kUser) return fail(ErrorCode::kInvalidInput, "must be a user's");
    return contents(conversation);
  };
  EXPECT_EQ(first_that_fits(whole, "id", attempt, attempt(whole)), "234");
}

}  // namespace
}  // namespace tempo9::server
