// What the operators of the language do to values. Messages follow Python's wording.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "chat/template/ast.h"
#include "chat/template/context.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// All errors are kInvalidInput.
Result<Value> apply_binary(Context& context, BinaryOp op, const Value& left, const Value& right);
Result<Value> apply_unary(Context& context, UnaryOp op, const Value& operand);
Result<bool> apply_comparison(Context& context, CompareOp op, const Value& left, const Value& right);
// item in container.
Result<bool> contains(Context& context, const Value& container, const Value& item);

// object.name: a method or field before a key of that name.
Result<Value> get_attribute(Context& context, const Value& object, std::string_view name);
// object[key]: a key before a method of that name.
Result<Value> get_item(Context& context, const Value& object, const Value& key);
// object[start:stop:step]; undefined and none count as left out.
Result<Value> get_slice(Context& context, const Value& object, const Value& start, const Value& stop,
                        const Value& step);

// What a for loop goes through: elements, characters, keys; nothing for undefined. A generator is used up by it.
Result<std::vector<Value>> iterate(Context& context, const Value& value);
// len(value).
Result<int64_t> length_of(Context& context, const Value& value);

}  // namespace tempo9::chat
