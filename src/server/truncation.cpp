#include "server/truncation.h"

#include <vector>

namespace tempo9::server {

namespace {

using chat::Message;
using chat::Role;

// The part that each message belongs to, counted from 0; kSystem for those that stay.
constexpr size_t kSystem = SIZE_MAX;

std::vector<size_t> parts_of(const std::vector<Message>& messages) {
  std::vector<size_t> parts;
  size_t n = 0;
  for (const Message& message : messages) {
    const bool continues = message.role == Role::kTool && n > 0;
    if (message.role == Role::kSystem) {
      parts.push_back(kSystem);
    } else {
      parts.push_back(continues ? n - 1 : n++);
    }
  }
  return parts;
}

}  // namespace

size_t n_droppable(const chat::Conversation& conversation) {
  size_t n = 0;
  for (const size_t part : parts_of(conversation.messages)) {
    if (part != kSystem) n = part;
  }
  return n;
}

chat::Conversation without_oldest(const chat::Conversation& conversation, size_t n_parts) {
  chat::Conversation shorter = conversation;
  const std::vector<size_t> parts = parts_of(conversation.messages);
  shorter.messages.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kSystem || parts[i] >= n_parts) shorter.messages.push_back(conversation.messages[i]);
  }
  return shorter;
}

}  // namespace tempo9::server
