// Choosing one of many tokens without sorting the vocabulary. All rules below cut the list that is ordered by falling
// logit and, among equals, rising id, so what is kept is always a prefix of that list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tempo9::engine {

struct Candidate {
  int32_t id = 0;
  float logit = 0.0f;
  float weight = 0.0f;  // exp((logit - largest logit) / temperature); 1 for the best
};

// The first `k` of the list, in its order; fewer when fewer are finite. One pass with a heap of k.
void select_top(std::span<const float> logits, int64_t k, std::vector<Candidate>& top);

// All finite ones, by id.
void select_all(std::span<const float> logits, std::vector<Candidate>& all);

// REQUIRES: not empty.
void set_weights(std::span<Candidate> candidates, float temperature);

// Keeps the shortest prefix of the list that holds at least `top_p` of the weight; at least one. Leaves the order of
// `candidates` as it is. Expected linear time; `scratch` is overwritten.
void keep_top_p(std::vector<Candidate>& candidates, double top_p, std::vector<Candidate>& scratch);

// Keeps what weighs at least `min_p` times the best one.
void keep_min_p(std::vector<Candidate>& candidates, float min_p);

// The candidate at `u`, in [0, 1), of the total weight. REQUIRES: not empty.
int32_t draw(std::span<const Candidate> candidates, double u);

}  // namespace tempo9::engine
