// /metrics: its form, its histograms, and that docs/observability.md lists what is there, and nothing else.
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "server/server_fixture.h"
#include "vision/fake_encoder.h"

namespace tempo9::testing {
namespace {

class Metrics : public ServerTest {
 protected:
  Metrics() { images_ = &input_; }

  // Everything that could be there: a tower, energy, guesses.
  static engine::ServiceStats full_stats() {
    engine::ServiceStats stats;
    stats.energy_j = 2.5;
    for (engine::DrafterStats& drafter : stats.speculation.drafters) {
      drafter.proposed[0] = 4;
      drafter.accepted[0] = 3;
    }
    return stats;
  }

  // Values by name and labels.
  std::map<std::string, double> values() {
    std::map<std::string, double> values;
    std::istringstream lines(get("/metrics").body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('#')) continue;
      const size_t space = line.rfind(' ');
      values[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
    return values;
  }

  FakeEncoder encoder_;
  vision::ImageService image_service_{encoder_, {}};
  server::ImageInput input_{image_service_, *chat::find_image_markup(tokenizer_)};
};

std::set<std::string> all_matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST_F(Metrics, TheDocumentListsAllOfThemAndNoOther) {
  service_.set_stats(full_stats());
  std::ifstream file(source_path("docs/observability.md"));
  const std::string document(std::istreambuf_iterator<char>(file), {});
  const std::set<std::string> listed = all_matches(document, std::regex("\\| `(tempo9_[a-z0-9_]+)[`{]"));
  const std::set<std::string> served = all_matches(get("/metrics").body, std::regex("# TYPE (tempo9_[a-z0-9_]+) "));
  EXPECT_GT(served.size(), 60u);
  EXPECT_EQ(listed, served);
}

TEST_F(Metrics, EachIsDeclaredOnceBeforeItsValues) {
  service_.set_stats(full_stats());
  std::istringstream lines(get("/metrics").body);
  std::set<std::string> declared;
  std::string current, type;
  const std::regex sample(R"((tempo9_[a-z0-9_]+)(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [-+0-9.e]+)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      words >> current >> type;
      EXPECT_TRUE(declared.insert(current).second) << current;
      EXPECT_EQ(type == "counter", current.ends_with("_total")) << current;
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, parts, sample)) << line;
    const std::string name = parts[1];
    EXPECT_TRUE(name == current || (type == "histogram" && name.starts_with(current + "_"))) << line;
  }
}

TEST_F(Metrics, HistogramsCountWhatIsUpToEachBound) {
  engine::ServiceStats stats;
  for (const double seconds : {0.003, 0.005, 0.02, 0.02, 7.0, 1000.0}) stats.first_token_s.add(seconds);
  service_.set_stats(stats);
  const auto got = values();
  const std::string name = "tempo9_time_to_first_token_seconds";
  EXPECT_EQ(got.at(name + "_bucket{le=\"0.005\"}"), 2);
  EXPECT_EQ(got.at(name + "_bucket{le=\"0.01\"}"), 2);
  EXPECT_EQ(got.at(name + "_bucket{le=\"0.025\"}"), 4);
  EXPECT_EQ(got.at(name + "_bucket{le=\"5\"}"), 4);
  EXPECT_EQ(got.at(name + "_bucket{le=\"10\"}"), 5);
  EXPECT_EQ(got.at(name + "_bucket{le=\"300\"}"), 5);
  EXPECT_EQ(got.at(name + "_bucket{le=\"+Inf\"}"), 6);
  EXPECT_EQ(got.at(name + "_count"), 6);
  EXPECT_NEAR(got.at(name + "_sum"), 1007.048, 1e-9);
  EXPECT_EQ(got.at("tempo9_token_gap_seconds_count"), 0);
}

TEST_F(Metrics, TellHowRequestsEndedAndWhichGuess) {
  engine::ServiceStats stats;
  stats.ended = {.stop = 5, .length = 4, .cancelled = 3, .error = 2};
  stats.speculation.drafters[0].gates_open = 7;
  stats.speculation.drafters[1].gates_closed = 6;
  stats.memory.speculation_bytes = 11;
  service_.set_stats(stats);
  const auto got = values();
  EXPECT_EQ(got.at("tempo9_requests_ended_total{finish=\"stop\"}"), 5);
  EXPECT_EQ(got.at("tempo9_requests_ended_total{finish=\"length\"}"), 4);
  EXPECT_EQ(got.at("tempo9_requests_ended_total{finish=\"cancelled\"}"), 3);
  EXPECT_EQ(got.at("tempo9_requests_ended_total{finish=\"error\"}"), 2);
  EXPECT_EQ(got.at("tempo9_speculation_gates{drafter=\"text\",state=\"open\"}"), 7);
  EXPECT_EQ(got.at("tempo9_speculation_gates{drafter=\"block\",state=\"closed\"}"), 6);
  EXPECT_EQ(got.at("tempo9_memory_speculation_bytes"), 11);
  EXPECT_EQ(got.at("tempo9_context_tokens"), static_cast<double>(service_.context_length()));
}

TEST_F(Metrics, NamesOfModelsAreWrittenAsLabels) {
  model_card_.name = "a\"b\\c";
  restart({});
  EXPECT_NE(get("/metrics").body.find(R"(model="a\"b\\c")"), std::string::npos);
}

}  // namespace
}  // namespace tempo9::testing
