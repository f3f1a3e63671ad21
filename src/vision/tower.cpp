#include "vision/tower.h"

#include "vision/tower_folder.h"

namespace tempo9::vision {

Result<std::unique_ptr<ImageEncoder>> Tower::open(const std::string& folder, const TowerOptions&) {
  T9_TRY(meta, read_meta(folder));
  return fail(ErrorCode::kUnsupported, folder + ": no executor for projectors of type " + meta.projector_type);
}

}  // namespace tempo9::vision
