// --kv-type: how K and V are held.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/kv_view.h"

namespace tempo9::cli {

// Adds the flag; `name` outlives `app`.
CLI::Option* add_kv_type_option(CLI::App& app, std::string& name);

// The type of that name, or the first of those that the backend holds for none. Errors: kUnsupported when the backend
// can't hold it.
Result<tensor::KvType> choose_kv_type(std::span<const tensor::KvType> held, const std::string& name);

}  // namespace tempo9::cli
