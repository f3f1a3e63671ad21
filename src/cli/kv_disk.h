// The disk cache's settings: from the environment (AS_KV_OFFLOAD, AS_KV_OFFLOAD_GB, AS_KV_OFFLOAD_PATH) and the model.
#pragma once

#include "kv/disk/store.h"
#include "models/model.h"

namespace tempo9::cli {

// On unless AS_KV_OFFLOAD is 0; without a root when it is off, or when there is no home to put it. Errors:
// kInvalidInput, naming the variable.
Result<kv::disk::Options> read_kv_disk_options();

// Of the file and of the program that was built from it: what a cached page belongs to.
std::string kv_identity(const models::Model& model);

}  // namespace tempo9::cli
