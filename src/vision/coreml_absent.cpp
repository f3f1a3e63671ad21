#include "vision/coreml.h"

namespace tempo9::vision {

bool has_coreml() { return false; }

Result<std::unique_ptr<Executor>> make_coreml_executor(Projector, const std::string&, const TowerMeta&) {
  return fail(ErrorCode::kUnsupported, "Core ML is a part of macOS; this is another system");
}

}  // namespace tempo9::vision
