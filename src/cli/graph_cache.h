// Loading a model with its programs from a graph file where that fits, and leaving one behind where it does not.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "models/model.h"

namespace tempo9::cli {

// What --graph may be: a path, or "off"; empty means one in the cache folder, ${XDG_CACHE_HOME:-~/.cache}/tempo9/graph,
// named after the model file. Without a home there is no cache.
//
// A graph that is stale or damaged is built again, with one log line that says why, and replaced; failing to save one
// is a log line too. Errors: those of load_model; kInvalidInput when the path names a file that is no graph, which is
// never overwritten.
Result<models::Model> load_model(std::shared_ptr<const gguf::File> file, const std::string& graph);

}  // namespace tempo9::cli
