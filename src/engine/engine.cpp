// The engine thread. Where a step's parts are: scheduler (plan), runner (run), sampler/ and output (commit).
#include "engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/check_request.h"
#include "engine/limits.h"
#include "engine/memory_plan.h"
#include "engine/prompt_pass.h"
#include "engine/prompt_sharing.h"
#include "engine/read_bytes.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/speculation/speculator.h"
#include "engine/step_times.h"
#include "engine/wait_queue.h"
#include "engine/waker.h"
#include "kv/sizes.h"

namespace tempo9::engine {
namespace {

// Pages for this much of an answer are set aside at admission; more is taken when it is needed (spec performance
// section 8).
constexpr int64_t kReservedAnswer = 256;

// At the end, what was computed last still goes to disk, for so long at most.
constexpr std::chrono::milliseconds kLastWrites{2000};

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

int64_t round_up_to_pages(int64_t n_tokens) {
  return (n_tokens + tensor::kPageTokens - 1) / tensor::kPageTokens * tensor::kPageTokens;
}

Error stopping_error(ErrorCode code) { return Error(code, "the server is stopping").with_reason("server_stopping"); }

// A difference before this many tokens is most likely a line that changes with each request: a date, a client's header.
constexpr int64_t kHeaderTokens = 64;

std::string_view name_of(const kv::Difference& difference, int64_t n_reused, const tokenizer::Tokenizer& tokenizer) {
  using Reason = kv::Difference::Reason;
  const auto is_control = [&](std::optional<int32_t> token) {
    return token && *token >= 0 && tokenizer.type(*token) == tokenizer::TokenType::kControl;
  };
  // A part of a page may be cheaper to compute than to copy; more than that was not usable.
  if (n_reused + 2 * tensor::kPageTokens < difference.n_common) return "state";
  switch (difference.reason) {
    case Reason::kNone:
      return "-";
    case Reason::kNothingAlike:
      return "new";
    case Reason::kStoredEnds:
      return "longer";
    case Reason::kEvicted:
      return "evicted";
    case Reason::kDiffers:
      break;
  }
  const auto is_image = [](std::optional<int32_t> key) { return key && *key < 0; };
  if (is_image(difference.given) && (!difference.stored || is_image(difference.stored))) return "image";
  if (is_control(difference.stored) || is_control(difference.given)) return "template";
  const bool is_early = difference.n_common < kHeaderTokens;
  if (!difference.resumes) return is_early ? "new" : "branch";
  return is_early ? "header" : "edit";
}

// An image that has to be read in one pass fits beside all sequences that decode.
int64_t max_image_rows(const models::Model& model, const EngineOptions& options) {
  if (!model.info.sees_whole_images) return INT64_MAX;
  return std::min(models::most_image_rows(model), options.max_step_rows - options.max_batch);
}

class EngineThread final : public Engine {
 public:
  EngineThread(const models::Model& model, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
               const MemoryPlan& memory, const MemoryNeeds& needs, std::unique_ptr<kv::Cache> cache, Runner runner,
               Runner prompt_runner, std::unique_ptr<Speculator> speculator, ReadBytes read_bytes)
      : model_(model),
        tokenizer_(tokenizer),
        cache_(std::move(cache)),
        context_length_(memory.context_length),
        image_limits_{.embedding_cols = models::embedding_cols(model.program),
                      .max_rows = max_image_rows(model, options)},
        image_rules_{.is_spatial = !model.program.rope_axes.empty(), .sees_whole = model.info.sees_whole_images},
        idle_return_(options.idle_return),
        scheduler_({.max_batch = options.max_batch,
                    .max_step_rows = options.max_step_rows,
                    .pages_total = cache_->stats().pages_total}),
        runner_(std::move(runner)),
        prompt_pass_(std::move(prompt_runner)),
        speculator_(std::move(speculator)),
        read_bytes_(std::move(read_bytes)),
        energy_(options.energy),
        times_(options.step_ms) {
    if (energy_) counted_.energy_j = 0.0;
    counted_.memory = {.budget_bytes = memory.budget,
                       .activation_bytes = needs.activations,
                       .disk_buffer_bytes = needs.disk_buffers,
                       .speculation_bytes = needs.speculation,
                       .image_row_bytes = needs.image_rows,
                       .state_bytes = needs.state};
    count_memory();
    stats_ = counted_;
    sequences_.reserve(static_cast<size_t>(2 * options.max_batch));
    cache_->notify_disk([waker = waker_] { waker->wake(); });
    thread_ = std::thread([this] { loop(); });
  }
  ~EngineThread() override { stop(); }

  Result<std::shared_ptr<Stream>> submit(Request request) override;
  ServiceStats stats() const override;
  int64_t context_length() const override { return context_length_; }
  void stop() override;

 private:
  void loop();
  void step();

  void admit();
  std::vector<SequenceState> states() const;
  Demand demand() const;
  // Gives the sequence the pages that are there for its next tokens.
  void reuse(Sequence& sequence);
  // Takes in what the disk has done; true if there was something.
  bool poll_disk();
  void log_disk_problem();
  void count_disk_wait(Sequence& sequence);
  Plans plan();
  void pause(Sequence& sequence);
  void apply(const Plans& plans);
  void set_up(const StepPlan& plan);
  // Takes the open prompt pass on until the step has taken its time.
  void read_prompts(Clock::time_point started);
  // `spent`: on the pass until now.
  void commit(const StepPlan& plan, const Runner::Output& output, Milliseconds spent);
  // Divides what a pass took by its rows.
  void share_energy(const StepPlan& plan, double joules);
  Result<Sampled> sample(Sequence& sequence, std::span<float> logits);
  // Samples the answer's next tokens: one, and one more for each draft that was right. `logits`: of the rows that give
  // some. Posts what text they release.
  void extend(Sequence& sequence, const StepPlan::Rows& rows, tensor::MatView<float> logits);
  // Samples one; finds out whether the answer ends with it.
  void add_token(Sequence& sequence, std::span<float> logits);
  void end(Sequence& sequence, Result<FinishReason> reason) { sequence.end = std::move(reason); }
  // Lets others have the pages that are full, or posts the last event.
  void keep(Sequence& sequence);

  void drop_cancelled();
  void abandon_pass_of_nobody();
  void end_all(const Error& error);
  void release(Sequence& sequence);
  void finish(Sequence& sequence, FinishReason reason);
  void finish(Sequence& sequence, Error error);
  void post_last(Sequence& sequence, Event event, std::string_view reason);
  void count_end(std::string_view reason);

  void park();
  void publish(const StepPlan& plan);
  void count_memory();
  void count_reads(const StepPlan& plan);
  std::unique_ptr<Sequence> make_sequence(Request request);
  const GrammarTokens& grammar_tokens();

  const models::Model& model_;
  const tokenizer::Tokenizer& tokenizer_;
  const std::unique_ptr<kv::Cache> cache_;
  const int64_t context_length_;
  const ImageLimits image_limits_;
  const ImageRules image_rules_;
  const std::chrono::milliseconds idle_return_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();

  // Engine thread only.
  const Scheduler scheduler_;
  Runner runner_;
  PromptPass prompt_pass_;
  const std::unique_ptr<Speculator> speculator_;  // null: no speculation
  const ReadBytes read_bytes_;
  EnergyMeter* const energy_;  // null: not counted
  StepTimes times_;
  SamplerScratch scratch_;
  grammar::TokenMask only_forced_{model_.info.n_vocab};
  std::vector<std::unique_ptr<Sequence>> sequences_;  // admitted, in order
  uint64_t n_admitted_ = 0;
  ServiceStats counted_;  // published to stats_ after each step

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  WaitQueue queue_{kMaxWaiting};
  bool stopping_ = false;
  bool parked_ = true;  // there is nothing to compute
  Clock::time_point last_progress_ = Clock::now();
  ServiceStats stats_;

  std::once_flag grammar_tokens_once_;
  std::optional<GrammarTokens> grammar_tokens_;  // made by the thread of the first request that has a grammar

  std::mutex join_mutex_;
  std::thread thread_;
};

// ---- any thread

std::unique_ptr<Sequence> EngineThread::make_sequence(Request request) {
  const int64_t n_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t room = context_length_ - n_prompt;
  const int64_t max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  const uint64_t seed = request.sampling.seed ? *request.sampling.seed : fresh_seed();
  Sampler sampler({.params = std::move(request.sampling),
                   .seed = seed,
                   .logprobs = request.logprobs,
                   .top_logprobs = request.top_logprobs,
                   .mask = {.n_tokens = tokenizer_.n_tokens(), .suppressed = tokenizer_.suppressed()}});
  std::optional<ConstraintState> constraint;
  if (request.constraint.grammar) {
    std::vector<TokenText> control_texts;
    for (const int32_t id : request.shown_control)
      control_texts.push_back({id, tokenizer_.piece(id, /*special=*/true)});
    constraint.emplace(std::move(request.constraint), grammar_tokens(), std::move(control_texts));
  }
  std::optional<Thought> thought;
  if (!request.thought_limit.end.empty()) thought.emplace(std::move(request.thought_limit));
  std::vector<int32_t> keys = cache_keys(request.prompt, request.images);
  return std::make_unique<Sequence>(Sequence{.id = std::move(request.id),
                                             .route = std::move(request.route),
                                             .client = std::move(request.client),
                                             .tokens = std::move(request.prompt),
                                             .keys = std::move(keys),
                                             .images = PromptImages(std::move(request.images), image_rules_),
                                             .n_prompt = n_prompt,
                                             .max_tokens = max_tokens,
                                             .n_reserved = n_prompt + std::min(max_tokens, kReservedAnswer),
                                             .shown_control = std::move(request.shown_control),
                                             .ignore_end = request.ignore_end,
                                             .order = 0,
                                             .pages = {},
                                             .n_computed = 0,
                                             .drafts = {},
                                             .speculation = nullptr,
                                             .end = {},
                                             .ended = false,
                                             .constraint = std::move(constraint),
                                             .thought = std::move(thought),
                                             .sampler = std::move(sampler),
                                             .output = Output(std::move(request.stop), request.logprobs),
                                             .events = std::make_shared<EventQueue>(waker_),
                                             .submitted = Clock::now(),
                                             .first_row = {},
                                             .first_token = {},
                                             .last_token = {}});
}

const GrammarTokens& EngineThread::grammar_tokens() {
  std::call_once(grammar_tokens_once_, [this] { grammar_tokens_.emplace(tokenizer_); });
  return *grammar_tokens_;
}

Result<std::shared_ptr<Stream>> EngineThread::submit(Request request) {
  T9_TRY_VOID(check_request(request, context_length_, model_.info.n_vocab, image_limits_));
  std::unique_ptr<Sequence> sequence = make_sequence(std::move(request));
  std::shared_ptr<Stream> stream = make_stream(sequence->events);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(stopping_error(ErrorCode::kOutOfCapacity));
    if (queue_.is_full()) {
      return fail(Error(ErrorCode::kOutOfCapacity, fmt::format("{} requests are waiting already", queue_.size()))
                      .with_reason("queue_full"));
    }
    queue_.push(std::move(sequence));
    if (parked_) last_progress_ = Clock::now();
    parked_ = false;
  }
  waker_->wake();
  return stream;
}

ServiceStats EngineThread::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  stats.waiting = queue_.size();
  stats.last_step_age_s = parked_ ? 0.0 : ms_between(last_progress_, Clock::now()) / 1000.0;
  return stats;
}

void EngineThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_->wake();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

// ---- the engine thread

void EngineThread::loop() {
  const auto is_stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  log_disk_problem();
  while (!is_stopping()) {
    try {
      step();
    } catch (const std::exception& exception) {  // of a library, most likely for lack of memory
      spdlog::error("engine: step failed error=\"{}\"", exception.what());
      end_all(Error(ErrorCode::kInternal, fmt::format("the engine failed: {}", exception.what())));
    }
  }
  end_all(stopping_error(ErrorCode::kCancelled));
  cache_->finish_writes(kLastWrites);
  publish({});
}

void EngineThread::step() {
  const Clock::time_point started = Clock::now();
  drop_cancelled();
  admit();
  const bool disk_changed = poll_disk();
  const Plans plans = plan();
  apply(plans);
  if (plans.step.rows.empty() && !prompt_pass_.is_open()) {
    if (disk_changed) publish({});
    return park();
  }
  if (!plans.step.rows.empty()) {
    const double joules_before = energy_ ? energy_->joules() : 0.0;
    const Runner::Output output = runner_.run(plans.step, sequences_);
    if (energy_) share_energy(plans.step, energy_->joules() - joules_before);
    commit(plans.step, output, Clock::now() - started);
    publish(plans.step);
  }
  if (prompt_pass_.is_open()) read_prompts(started);
}

void EngineThread::read_prompts(Clock::time_point started) {
  const Milliseconds rest(times_.planned_ms(demand()) - ms_between(started, Clock::now()));
  const std::optional<PromptPass::Done> done = prompt_pass_.advance(rest, sequences_, energy_);
  if (!done) return publish({});
  if (energy_) share_energy(done->plan, done->joules);
  times_.add_part(done->plan.n_prefill_rows, done->longest_part.count());
  commit(done->plan, done->output, done->spent);
  publish(done->plan);
}

void EngineThread::admit() {
  const auto fits = [this](const Sequence& next) { return scheduler_.admits(states(), next.n_reserved); };
  while (true) {
    std::unique_ptr<Sequence> next;
    {
      const std::lock_guard lock(mutex_);
      next = queue_.pop_if(fits);
    }
    if (!next) return;
    next->order = n_admitted_++;
    if (const auto i = scheduler_.gives_way(states())) pause(*sequences_[static_cast<size_t>(*i)]);
    sequences_.push_back(std::move(next));                      // from here on the catch in loop() ends it too
    sequences_.back()->pages = cache_->add_sequence().value();  // there are max_batch of them
  }
}

std::vector<SequenceState> EngineThread::states() const {
  const Clock::time_point now = Clock::now();
  std::vector<SequenceState> states;
  for (const std::unique_ptr<Sequence>& s : sequences_) {
    states.push_back({.n_tokens = s->n_tokens(),
                      .n_computed = s->n_computed,
                      .n_reserved = s->n_reserved,
                      .order = s->order,
                      .waited_ms = ms_between(s->submitted, now),
                      .active = s->pages.has_value(),
                      .blocked = s->events->is_full(),
                      .waits = s->waits,
                      .n_drafts = std::ssize(s->drafts),
                      .stop = s->stop,
                      .pass_end = s->pass_end,
                      .whole = s->images.whole()});
  }
  return states;
}

// Who waits for a place or for a reader asks for nothing.
Demand EngineThread::demand() const {
  Demand demand;
  for (const std::unique_ptr<Sequence>& s : sequences_) {
    if (!s->pages || s->events->is_full()) continue;
    ++(s->n_tokens() - s->n_computed > 1 ? demand.n_prompts : demand.n_decoding);
  }
  return demand;
}

void EngineThread::reuse(Sequence& sequence) {
  const std::span<const int32_t> keys(sequence.keys);
  const int64_t n_found = cache_->reuse(*sequence.pages, keys.first(keys.size() - 1));  // the last gives the logits
  if (!sequence.was_paused) sequence.n_reused += n_found - sequence.n_computed;
  sequence.n_computed = n_found;
}

bool EngineThread::poll_disk() {
  const bool changed = cache_->poll_disk();
  if (changed) log_disk_problem();
  return changed;
}

void EngineThread::log_disk_problem() {
  if (const auto problem = cache_->take_disk_problem()) spdlog::warn("event=kv_disk_unusable what=\"{}\"", *problem);
}

void EngineThread::count_disk_wait(Sequence& sequence) {
  const bool is_waiting = sequence.pages && cache_->is_fetching(*sequence.pages);
  if (is_waiting && !sequence.asked_disk_at) sequence.asked_disk_at = Clock::now();
  if (is_waiting || !sequence.asked_disk_at) return;
  counted_.disk_wait_s += ms_between(*sequence.asked_disk_at, Clock::now()) / 1000.0;
  sequence.asked_disk_at.reset();
}

Plans EngineThread::plan() {
  for (const std::unique_ptr<Sequence>& sequence : sequences_) {
    if (!sequence->pages || sequence->n_tokens() - sequence->n_computed <= 1 || sequence->pass_end > 0) continue;
    reuse(*sequence);
    if (sequence->asked_disk) continue;
    sequence->asked_disk = true;
    const auto read = std::span<const int32_t>(sequence->keys).first(sequence->keys.size() - 1);
    if (!sequence->difference) sequence->difference = cache_->explain(read);
    cache_->fetch(*sequence->pages, read);
  }
  share_prompts(sequences_, !model_.program.state_layers.empty());
  for (const std::unique_ptr<Sequence>& sequence : sequences_) {
    if (sequence->pages && cache_->is_fetching(*sequence->pages)) sequence->waits = true;
    count_disk_wait(*sequence);
  }
  PrefillRows prefill = times_.prefill_rows(demand());
  if (prompt_pass_.is_open()) prefill.behind = 0;
  return scheduler_.plan(states(), prefill);
}

void EngineThread::pause(Sequence& sequence) {
  release(sequence);
  sequence.was_paused = true;
  sequence.drafts.clear();
}

void EngineThread::apply(const Plans& plans) {
  for (const int32_t i : plans.step.pause) pause(*sequences_[static_cast<size_t>(i)]);
  for (const int32_t i : plans.step.resume) sequences_[static_cast<size_t>(i)]->pages = cache_->add_sequence().value();
  set_up(plans.step);
  set_up(plans.behind);
  if (!plans.behind.rows.empty()) prompt_pass_.begin(plans.behind, sequences_);
}

// Gives the rows their pages.
void EngineThread::set_up(const StepPlan& plan) {
  for (const StepPlan::Rows& rows : plan.rows) {
    Sequence& sequence = *sequences_[static_cast<size_t>(rows.sequence)];
    const Result<void> grown = cache_->grow(sequence.pages.value(), rows.end);
    T9_CHECK_MSG(grown.has_value(), grown.error().message());  // the plan counts pages
    if (!sequence.first_row) {
      sequence.first_row = Clock::now();
      counted_.queue_s.add(ms_between(sequence.submitted, *sequence.first_row) / 1000.0);
    }
  }
}

void EngineThread::share_energy(const StepPlan& plan, double joules) {
  *counted_.energy_j += joules;
  const auto n_rows = static_cast<double>(plan.n_decode_rows + plan.n_prefill_rows);
  for (const StepPlan::Rows& rows : plan.rows) {
    sequences_[static_cast<size_t>(rows.sequence)]->energy_j +=
        joules * static_cast<double>(rows.end - rows.begin) / n_rows;
  }
}

void EngineThread::commit(const StepPlan& plan, const Runner::Output& output, Milliseconds spent) {
  const Clock::time_point started = Clock::now();
  int64_t first = 0;
  for (const StepPlan::Rows& rows : plan.rows) {
    tensor::MatView<float> logits = output.logits;
    logits.data = output.logits.row(first);
    extend(*sequences_[static_cast<size_t>(rows.sequence)], rows, logits);
    first += rows.n_outputs();
  }
  runner_.settle(plan, sequences_);
  const double ms = spent.count() + ms_between(started, Clock::now());
  if (speculator_) {
    if (plan.n_prefill_rows == 0) speculator_->measure(plan.n_decode_rows, ms);
    speculator_->draft(plan, sequences_, output.hidden);
  }
  for (const StepPlan::Rows& rows : plan.rows) keep(*sequences_[static_cast<size_t>(rows.sequence)]);
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->ended; });
  counted_.step_s += ms / 1000.0;
  times_.add(plan.n_decode_rows, plan.n_prefill_rows, ms);
}

void EngineThread::keep(Sequence& sequence) {
  cache_->truncate(*sequence.pages, sequence.n_computed);
  cache_->publish(*sequence.pages, std::span(sequence.keys).first(static_cast<size_t>(sequence.n_computed)));
  cache_->set_length(*sequence.pages, sequence.n_computed);
  if (sequence.n_computed == sequence.stop) cache_->keep_state(*sequence.pages);
  if (!sequence.end) return;
  if (sequence.end->has_value()) {
    finish(sequence, **sequence.end);
  } else {
    finish(sequence, std::move(sequence.end->error()));
  }
}

Result<Sampled> EngineThread::sample(Sequence& sequence, std::span<float> logits) {
  const grammar::TokenMask* allowed = nullptr;
  if (sequence.constraint) {
    T9_TRY(mask, sequence.constraint->allowed_tokens());
    allowed = mask;
  }
  const auto forced = sequence.thought ? sequence.thought->forced() : std::nullopt;
  if (forced && (!allowed || allowed->has(*forced))) {
    only_forced_.clear();
    only_forced_.set(*forced);
    allowed = &only_forced_;
  }
  return sequence.sampler.sample(logits, sequence.tokens, allowed, scratch_);
}

void EngineThread::extend(Sequence& sequence, const StepPlan::Rows& rows, tensor::MatView<float> logits) {
  sequence.n_computed = rows.end - rows.n_drafts;
  if (!rows.wants_logits) return;
  add_token(sequence, logits.row_span(0));
  int64_t n_right = 0;
  while (!sequence.end && n_right < rows.n_drafts &&
         sequence.tokens.back() == sequence.drafts[static_cast<size_t>(n_right)]) {
    ++sequence.n_computed;
    add_token(sequence, logits.row_span(++n_right));
  }
  // What lies behind the end of the answer was neither right nor wrong.
  if (speculator_) speculator_->verified(sequence, sequence.end ? n_right : rows.n_drafts, n_right);
  if (!sequence.end && sequence.output.has_text()) sequence.events->push(sequence.output.take());
}

void EngineThread::add_token(Sequence& sequence, std::span<float> logits) {
  Result<Sampled> sampled = sample(sequence, logits);
  if (!sampled) return end(sequence, std::unexpected(std::move(sampled).error()));
  const Clock::time_point before = std::exchange(sequence.last_token, Clock::now());
  if (sequence.first_token) {
    counted_.token_gap_s.add(ms_between(before, sequence.last_token) / 1000.0);
  } else {
    sequence.first_token = sequence.last_token;
    counted_.first_token_s.add(ms_between(sequence.submitted, sequence.last_token) / 1000.0);
    counted_.prompt_tokens += static_cast<uint64_t>(sequence.n_prompt);
    counted_.reused_tokens += static_cast<uint64_t>(sequence.n_reused);
  }
  if (tokenizer_.is_end_of_generation(sampled->token) && !sequence.ignore_end) {
    return end(sequence, FinishReason::kStop);
  }
  ++counted_.completion_tokens;
  sequence.tokens.push_back(sampled->token);
  sequence.keys.push_back(sampled->token);
  sequence.sampler.accept(sampled->token);
  const std::string_view piece = tokenizer_.piece(sampled->token, /*special=*/sequence.shows(sampled->token));
  if (sequence.constraint && !sequence.constraint->accept(piece)) {
    return end(sequence, fail(ErrorCode::kInternal, "a token that the grammar allowed does not fit it"));
  }
  if (sequence.thought) sequence.thought->accept(sampled->token, piece);
  const bool stopped = sequence.output.add(sampled->token, piece, std::move(sampled->info));
  if (stopped) return end(sequence, FinishReason::kStop);
  if (sequence.constraint && sequence.constraint->is_complete()) return end(sequence, FinishReason::kStop);
  if (sequence.n_answer() >= sequence.max_tokens) end(sequence, FinishReason::kLength);
}

void EngineThread::drop_cancelled() {
  // Others' rows may be in the same prompt pass: then it goes on to its end.
  const auto is_cancelled = [this](const Sequence& sequence) {
    return sequence.events->is_cancelled() && !(prompt_pass_.is_open() && sequence.pass_end > 0);
  };
  abandon_pass_of_nobody();
  std::vector<std::unique_ptr<Sequence>> cancelled;
  {
    const std::lock_guard lock(mutex_);
    cancelled = queue_.extract(is_cancelled);
  }
  const auto kept = std::ranges::stable_partition(sequences_, [&](const auto& s) { return !is_cancelled(*s); });
  std::ranges::move(kept, std::back_inserter(cancelled));
  sequences_.erase(kept.begin(), kept.end());
  for (const std::unique_ptr<Sequence>& sequence : cancelled) {
    if (!sequence->events->is_complete()) ++counted_.cancelled;
    finish(*sequence, Error(ErrorCode::kCancelled, "the client has gone"));
  }
  if (!cancelled.empty()) publish({});
}

void EngineThread::abandon_pass_of_nobody() {
  const auto has_gone = [](const Sequence* sequence) { return sequence->events->is_cancelled(); };
  if (!prompt_pass_.is_open() || !std::ranges::all_of(prompt_pass_.sequences(), has_gone)) return;
  prompt_pass_.abandon();
}

void EngineThread::end_all(const Error& error) {
  prompt_pass_.abandon();
  std::vector<std::unique_ptr<Sequence>> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = queue_.extract([](const Sequence&) { return true; });
  }
  std::ranges::move(waiting, std::back_inserter(sequences_));
  for (const std::unique_ptr<Sequence>& sequence : sequences_) {
    if (!sequence->ended) finish(*sequence, error);
  }
  sequences_.clear();
}

void EngineThread::release(Sequence& sequence) {
  if (sequence.pages && sequence.pass_end > 0) {
    cache_->remove_sequence(*sequence.pages);  // what was full is published
  } else if (sequence.pages) {
    cache_->remove_and_keep(*sequence.pages, std::span(sequence.keys).first(static_cast<size_t>(sequence.n_computed)));
  }
  sequence.pages.reset();
  sequence.asked_disk = false;
  sequence.n_computed = 0;
}

void EngineThread::finish(Sequence& sequence, FinishReason reason) {
  const bool stopped = sequence.output.finish();
  if (stopped) reason = FinishReason::kStop;
  Event event = sequence.output.take();
  event.finish = reason;
  post_last(sequence, std::move(event), reason == FinishReason::kStop ? "stop" : "length");
}

void EngineThread::finish(Sequence& sequence, Error error) {
  const bool is_cancelled = error.code() == ErrorCode::kCancelled;
  if (!is_cancelled) spdlog::error("request id={} error=\"{}\"", sequence.id, error.message());
  Event event;
  event.error = std::move(error);
  const std::string_view cancelled = sequence.events->is_complete() ? "stop" : "cancelled";
  post_last(sequence, std::move(event), is_cancelled ? cancelled : "error");
}

void EngineThread::post_last(Sequence& sequence, Event event, std::string_view reason) {
  release(sequence);
  sequence.ended = true;
  const Clock::time_point now = Clock::now();
  count_end(reason);
  counted_.request_s.add(ms_between(sequence.submitted, now) / 1000.0);
  const Clock::time_point first_row = sequence.first_row.value_or(now);
  const Clock::time_point first_token = sequence.first_token.value_or(now);
  Usage& usage = event.usage;
  usage.prompt_tokens = sequence.n_prompt;
  usage.cached_tokens = sequence.n_reused;
  if (sequence.difference) {
    usage.common_tokens = std::max(sequence.difference->n_common, sequence.n_reused);
    usage.uncached_because = name_of(*sequence.difference, sequence.n_reused, tokenizer_);
  }
  usage.completion_tokens = sequence.n_answer();
  usage.drafted_tokens = sequence.n_drafted;
  usage.accepted_tokens = sequence.n_drafts_accepted;
  usage.queue_ms = ms_between(sequence.submitted, first_row);
  usage.prefill_ms = ms_between(first_row, first_token);
  if (sequence.first_token) usage.decode_ms = ms_between(first_token, sequence.last_token);
  if (energy_) usage.energy_j = sequence.energy_j;
  const double decode_s = usage.decode_ms / 1000.0;
  spdlog::info(
      "request id={} route={} prompt={} cached={} common={} why={} completion={} ttft_ms={:.1f} tok_s={:.1f} "
      "finish={}{}",
      sequence.id, sequence.route, usage.prompt_tokens, usage.cached_tokens, usage.common_tokens,
      usage.uncached_because, usage.completion_tokens, usage.queue_ms + usage.prefill_ms,
      decode_s > 0.0 ? static_cast<double>(usage.completion_tokens) / decode_s : 0.0, reason,
      usage.energy_j ? fmt::format(" energy_j={:.3f}", *usage.energy_j) : "");
  sequence.events->push(std::move(event));
}

void EngineThread::count_end(std::string_view reason) {
  EndedCounts& ended = counted_.ended;
  ++(reason == "stop"        ? ended.stop
     : reason == "length"    ? ended.length
     : reason == "cancelled" ? ended.cancelled
                             : ended.error);
}

void EngineThread::park() {
  {
    const std::lock_guard lock(mutex_);
    parked_ = queue_.size() == 0 || !sequences_.empty();
  }
  if (!waker_->wait_for(idle_return_)) {
    cache_->release_restorable();
    publish({});
    waker_->wait();
  }
  const std::lock_guard lock(mutex_);
  if (parked_) last_progress_ = Clock::now();
  parked_ = false;
}

void EngineThread::publish(const StepPlan& plan) {
  if (!plan.rows.empty()) ++counted_.steps;
  counted_.decode_rows += static_cast<uint64_t>(plan.n_decode_rows);
  counted_.prefill_rows += static_cast<uint64_t>(plan.n_prefill_rows);
  counted_.running = static_cast<int64_t>(sequences_.size());
  count_memory();
  count_reads(plan);
  if (speculator_) counted_.speculation = speculator_->stats(sequences_);
  const std::lock_guard lock(mutex_);
  stats_ = counted_;
  last_progress_ = Clock::now();
}

void EngineThread::count_reads(const StepPlan& plan) {
  if (plan.rows.empty()) return;
  int64_t n_outputs = 0;
  for (const StepPlan::Rows& rows : plan.rows) {
    n_outputs += rows.n_outputs();
    counted_.kv_bytes_read += read_bytes_.kv(rows.end);
  }
  counted_.weight_bytes_read += read_bytes_.weights(plan.n_decode_rows + plan.n_prefill_rows, n_outputs);
  counted_.thread_wait_s = runner_.waited_s();
}

void EngineThread::count_memory() {
  const kv::CacheStats cache = cache_->stats();
  counted_.kv_pages_used = cache.pages_used;
  counted_.kv_pages_kept = cache.pages_kept;
  counted_.kv_pages_total = cache.pages_total;
  counted_.kv_evictions = cache.evictions;
  counted_.disk = {.bytes = cache.disk.bytes,
                   .segments = cache.disk.segments,
                   .restored_tokens = cache.restored_pages * static_cast<uint64_t>(tensor::kPageTokens),
                   .restored_spans = cache.restored_spans,
                   .written_bytes = cache.disk.written_bytes,
                   .read_bytes = cache.disk.read_bytes,
                   .evicted = cache.disk.evicted_segments,
                   .damaged = cache.disk.damaged_segments,
                   .failed_writes = cache.disk.failed_writes};
  counted_.memory.bytes_per_token =
      static_cast<double>(cache.bytes_per_page) / static_cast<double>(tensor::kPageTokens);
  counted_.memory.pages_resident_bytes = cache.resident_bytes;
  counted_.memory.pages_reserved_bytes = cache.reserved_bytes;
  counted_.memory.states_used = cache.states_used;
  counted_.memory.states_kept = cache.states_kept;
}

// Rows of a pass that give logits: of each sequence one, and one more for each guess.
int64_t max_outputs(const EngineOptions& options) {
  return std::min(options.max_step_rows, options.max_batch * (1 + options.speculation.max_depth));
}

// Sequences that may have a second state: from before rows that may be taken back.
int64_t max_trials(const EngineOptions& options) { return options.speculation.max_depth > 0 ? options.max_batch : 0; }

}  // namespace

Result<PlannedMemory> plan_engine_memory(const backends::Backend& backend, const models::Model& model,
                                         const EngineOptions& options) {
  if (options.context_length < 2 || options.max_batch < 1 || options.max_step_rows < options.max_batch ||
      options.max_step_rows > kMaxStepRows || options.kv_tokens < 0 || options.speculation.max_depth < 0 ||
      options.speculation.max_depth > kMaxDepth) {
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("engine: context {}, batch {}, rows {} (at most {}), KV tokens {}: out of range",
                    options.context_length, options.max_batch, options.max_step_rows, kMaxStepRows, options.kv_tokens));
  }
  const MemoryNeeds needs{
      .activations = open_passes_bytes(model.program, model.info.n_vocab, options.max_step_rows, max_outputs(options),
                                       options.max_batch),
      .disk_buffers = options.disk.root.empty() ? 0 : kv::disk::Store::most_memory_bytes(options.disk),
      .speculation = Speculator::buffer_bytes(model, options.speculation,
                                              {.max_step_rows = options.max_step_rows, .max_batch = options.max_batch}),
      .image_rows =
          options.takes_images
              ? static_cast<size_t>(2 * options.max_step_rows * models::embedding_cols(model.program)) * sizeof(float)
              : 0,
      .page = kv::page_bytes(backend, Speculator::kv_layers(model, options.speculation), options.kv_type),
      .state = kv::state_bytes(model.program.state_layers),
      .trial_states = max_trials(options),
      .max_batch = options.max_batch,
      .context_length = options.context_length};
  if (options.memory_bytes > 0) {
    T9_TRY(plan, plan_memory(needs, options.memory_bytes));
    return PlannedMemory{needs, plan};
  }
  const int64_t kv_tokens =
      options.kv_tokens > 0 ? options.kv_tokens : options.max_batch * round_up_to_pages(options.context_length);
  return PlannedMemory{needs,
                       plan_sizes(needs, round_up_to_pages(kv_tokens) / tensor::kPageTokens, options.kept_bytes)};
}

Result<std::unique_ptr<Engine>> Engine::create(backends::Backend& backend, const models::Model& model,
                                               const tokenizer::Tokenizer& tokenizer, const EngineOptions& options) {
  T9_TRY(planned, plan_engine_memory(backend, model, options));
  const auto& [needs, memory] = planned;
  const SpeculationOptions& speculation = options.speculation;
  const std::vector<tensor::KvLayerSpec> kv_layers = Speculator::kv_layers(model, speculation);
  T9_TRY(cache, kv::Cache::create(backend, kv_layers, model.program.state_layers,
                                  {.type = options.kv_type,
                                   .max_tokens = memory.pages * tensor::kPageTokens,
                                   .max_sequences = options.max_batch,
                                   .max_kept_pages = memory.kept_pages,
                                   .max_kept_states = memory.kept_states,
                                   .disk = options.disk,
                                   .max_trials = max_trials(options)}));
  std::unique_ptr<Speculator> speculator;
  if (speculation.max_depth > 0) {
    T9_TRY(created, Speculator::create(backend, model, tokenizer, *cache, speculation,
                                       {.max_step_rows = options.max_step_rows, .max_batch = options.max_batch}));
    speculator = std::move(created);
  }
  T9_TRY(runner, Runner::create(backend, model, *cache,
                                {.max_rows = options.max_step_rows,
                                 .max_outputs = max_outputs(options),
                                 .max_trial_rows = speculator ? max_outputs(options) : 0},
                                /*keeps_hidden=*/speculator && speculator->reads_hidden()));
  T9_TRY(prompt_runner,
         Runner::create(backend, model, *cache, {.max_rows = options.max_step_rows, .max_outputs = options.max_batch},
                        /*keeps_hidden=*/speculator && speculator->reads_hidden()));
  return std::make_unique<EngineThread>(model, tokenizer, options, memory, needs, std::move(cache), std::move(runner),
                                        std::move(prompt_runner), std::move(speculator),
                                        ReadBytes(model, backend, kv_layers, options.kv_type));
}

}  // namespace tempo9::engine
