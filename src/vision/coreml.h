// Towers on a Mac's Neural Engine, by Core ML: the packages that scripts/tower-coreml put into a tower's folder. Only
// macOS has it (coreml.mm); elsewhere coreml_absent.cpp says so. Built, but not verified on a Mac.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "vision/executor.h"
#include "vision/tower_folder.h"

namespace tempo9::vision {

bool has_coreml();

// The packages of the tower in `folder`, compiled by Core ML (which takes a while the first time). Its residency counts
// the operations that Core ML means to run on the Neural Engine and those that it does not. Errors: kUnsupported
// without Core ML, and when the tower has no packages; kInvalidInput with Core ML's reason for a package that it
// refuses.
Result<std::unique_ptr<Executor>> make_coreml_executor(Projector projector, const std::string& folder,
                                                       const TowerMeta& meta);

}  // namespace tempo9::vision
