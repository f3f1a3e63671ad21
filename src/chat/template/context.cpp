#include "chat/template/context.h"

#include <algorithm>

namespace tempo9::chat {

// Takes cycles apart, so that every value dies before the meter does.
Context::~Context() {
  for (const auto& list : grown_lists_) {
    auto items = std::move(list->items);
    list->items.clear();
  }
  for (Namespace& space : namespaces_) space.attributes.clear();
}

Value Context::bind(Value self, const Builtin& method) {
  return std::make_shared<const BoundMethod>(BoundMethod{std::move(self), &method});
}

Namespace* Context::make_namespace() {
  meter_.allocate(sizeof(Namespace));
  return &namespaces_.emplace_back();
}

void Context::append(const std::shared_ptr<List>& list, Value value) {
  if (!list->is_grown) {
    list->is_grown = true;
    grown_lists_.push_back(list);
  }
  list->nesting = std::max(list->nesting, nesting_of(value) + 1);
  meter_.nest(list->nesting);
  meter_.allocate(sizeof(Value));
  list->paid_bytes += sizeof(Value);
  list->items.push_back(std::move(value));
}

}  // namespace tempo9::chat
