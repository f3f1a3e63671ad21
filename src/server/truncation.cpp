#include "server/truncation.h"

#include <algorithm>
#include <vector>

namespace tempo9::server {

namespace {

using chat::Message;
using chat::Role;

// The part that each message belongs to, counted from 0; kStays for those that are never left out.
constexpr size_t kStays = SIZE_MAX;

std::vector<size_t> parts_of(const std::vector<Message>& messages) {
  const auto last_user = std::ranges::find(messages.rbegin(), messages.rend(), Role::kUser, &Message::role);
  std::vector<size_t> parts;
  size_t n = 0;
  for (const Message& message : messages) {
    const bool is_task = last_user != messages.rend() && &message == &*last_user;
    const bool continues = message.role == Role::kTool && n > 0;
    if (message.role == Role::kSystem || is_task) {
      parts.push_back(kStays);
    } else {
      parts.push_back(continues ? n - 1 : n++);
    }
  }
  return parts;
}

}  // namespace

size_t n_droppable(const chat::Conversation& conversation) {
  const std::vector<Message>& messages = conversation.messages;
  const std::vector<size_t> parts = parts_of(messages);
  size_t n = 0;
  for (const size_t part : parts) {
    if (part != kStays) n = part + 1;
  }
  const auto is_said = [](const Message& message) { return message.role != Role::kSystem; };
  const auto last = std::ranges::find_if(messages.rbegin(), messages.rend(), is_said);
  const bool ends_with_task = last != messages.rend() && last->role == Role::kUser;
  return ends_with_task || n == 0 ? n : n - 1;
}

chat::Conversation without_oldest(const chat::Conversation& conversation, size_t n_parts) {
  chat::Conversation shorter = conversation;
  const std::vector<size_t> parts = parts_of(conversation.messages);
  shorter.messages.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kStays || parts[i] >= n_parts) shorter.messages.push_back(conversation.messages[i]);
  }
  return shorter;
}

}  // namespace tempo9::server
