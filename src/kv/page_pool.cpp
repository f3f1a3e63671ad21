#include "kv/page_pool.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace tempo9::kv {
namespace {

int32_t pop_back(std::vector<int32_t>& pages) {
  const int32_t page = pages.back();
  pages.pop_back();
  return page;
}

// REQUIRES: `pages` ascending.
std::vector<PageRun> to_runs(std::span<const int32_t> pages) {
  std::vector<PageRun> runs;
  for (const int32_t page : pages) {
    if (!runs.empty() && runs.back().end == page) {
      ++runs.back().end;
    } else {
      runs.push_back({page, page + 1});
    }
  }
  return runs;
}

}  // namespace

TakenPage PagePool::take() {
  T9_CHECK(n_free() > 0);
  TakenPage taken;
  if (!kept_.empty()) {
    taken.page = pop_back(kept_);
  } else if (!returned_.empty()) {
    taken.page = pop_back(returned_);
  } else {
    taken = {n_touched_++, true};
  }
  references_[static_cast<size_t>(taken.page)] = 1;
  ++n_used_;
  return taken;
}

int32_t PagePool::sequences_of(int32_t page) const {
  return references_[static_cast<size_t>(page)] - (held_[static_cast<size_t>(page)] ? 1 : 0);
}

bool PagePool::is_idle(int32_t page) const { return held_[static_cast<size_t>(page)] && sequences_of(page) == 0; }

void PagePool::share(int32_t page) {
  T9_CHECK(page >= 0 && page < n_touched_ && references_[static_cast<size_t>(page)] > 0);
  if (is_idle(page)) --n_idle_;
  ++references_[static_cast<size_t>(page)];
}

void PagePool::drop(int32_t page) {
  T9_CHECK(page >= 0 && page < n_touched_ && sequences_of(page) > 0);
  unreference(page);
  if (is_idle(page)) ++n_idle_;
}

void PagePool::hold(int32_t page) {
  T9_CHECK(page >= 0 && page < n_touched_ && sequences_of(page) > 0 && !held_[static_cast<size_t>(page)]);
  held_[static_cast<size_t>(page)] = true;
  ++references_[static_cast<size_t>(page)];
}

void PagePool::let_go(int32_t page) {
  T9_CHECK(page >= 0 && page < n_touched_ && held_[static_cast<size_t>(page)]);
  if (is_idle(page)) --n_idle_;
  held_[static_cast<size_t>(page)] = false;
  unreference(page);
}

void PagePool::unreference(int32_t page) {
  if (--references_[static_cast<size_t>(page)] > 0) return;
  --n_used_;
  kept_.push_back(page);
}

std::vector<PageRun> PagePool::trim() {
  const int64_t most = std::max(kKeepFreePages, n_used_);
  if (static_cast<int64_t>(kept_.size()) <= most) return {};
  return give_back_all_but(most / 2);
}

std::vector<PageRun> PagePool::give_back_all_but(int64_t n_kept) {
  std::sort(kept_.begin(), kept_.end());
  const auto first_returned = kept_.begin() + std::min(n_kept, std::ssize(kept_));
  const std::span<const int32_t> give_back(first_returned, kept_.end());
  std::vector<PageRun> runs = to_runs(give_back);
  returned_.insert(returned_.end(), give_back.rbegin(), give_back.rend());
  kept_.erase(first_returned, kept_.end());
  std::reverse(kept_.begin(), kept_.end());  // low numbers are taken first
  return runs;
}

}  // namespace tempo9::kv
