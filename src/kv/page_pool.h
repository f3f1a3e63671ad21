// The pages of one pool: which are taken, by how many, which are free, and whose memory goes back to the system. Knows
// numbers only, not what a page holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tempo9::kv {

// A half-open range of page numbers.
struct PageRun {
  int32_t begin = 0;
  int32_t end = 0;
};

struct TakenPage {
  int32_t page = 0;
  bool clean = false;  // never handed out before: still as the system gave it, all zero
};

// Free pages stay resident so that the next sequence finds them warm, until they are more than kKeepFreePages and more
// than the pages in use: then all but half that many go back, in runs. Low numbers are kept, which keeps the resident
// part dense.
class PagePool {
 public:
  // A burst of sequences that end and begin moves about this many pages; keeping fewer would trade page faults for
  // little memory. 64 pages are 2048 tokens.
  static constexpr int64_t kKeepFreePages = 64;

  explicit PagePool(int64_t n_pages)
      : references_(static_cast<size_t>(n_pages), 0), held_(static_cast<size_t>(n_pages), false) {}

  int64_t n_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t n_used() const { return n_used_; }
  int64_t n_free() const { return n_pages() - n_used_; }
  // Pages in use that no sequence refers to: they are only held for reuse.
  int64_t n_idle() const { return n_idle_; }
  bool is_idle(int32_t page) const;
  // Pages whose memory may be resident: in use or kept free.
  int64_t n_resident() const { return n_used_ + static_cast<int64_t>(kept_.size()); }

  // REQUIRES: n_free() > 0.
  TakenPage take();
  // One more sequence refers to the page. REQUIRES: the page is in use.
  void share(int32_t page);
  // Drops a sequence's reference; the last one frees the page. REQUIRES: there is one.
  void drop(int32_t page);
  // Holds the page for reuse, whether or not a sequence refers to it, until let_go. REQUIRES: a sequence refers to it,
  // and it is not held yet.
  void hold(int32_t page);
  // REQUIRES: held.
  void let_go(int32_t page);
  // The runs whose memory is to be given back now; most often none. Their pages stay free.
  std::vector<PageRun> trim();
  // The same of all free pages.
  std::vector<PageRun> trim_all() { return give_back_all_but(0); }

 private:
  int32_t sequences_of(int32_t page) const;
  void unreference(int32_t page);
  std::vector<PageRun> give_back_all_but(int64_t n_kept);

  std::vector<int32_t> references_;  // sequences, and one if the page is held for reuse; 0: free
  std::vector<bool> held_;           // by page
  std::vector<int32_t> kept_;        // free, memory resident; taken first, last in first out
  std::vector<int32_t> returned_;    // free, memory given back
  int32_t n_touched_ = 0;            // pages below this number have been handed out at least once
  int64_t n_used_ = 0;
  int64_t n_idle_ = 0;
};

}  // namespace tempo9::kv
