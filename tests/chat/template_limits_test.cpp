// Templates are untrusted: whatever they do ends soon, with an error.
#include <gtest/gtest.h>

#include <string>

#include "chat/template/template.h"
#include "template_support.h"

namespace tempo9::chat {
namespace {

using namespace testing;

RenderOptions small_limits() {
  RenderOptions options;
  options.limits.output_bytes = 1 << 20;
  options.limits.memory_bytes = 8 << 20;
  options.limits.steps = 200'000;
  return options;
}

void expect_refused(std::string_view source, std::string_view part, const Json& variables = Json::object()) {
  auto rendered = render(source, variables, small_limits());
  ASSERT_FALSE(rendered) << source.substr(0, 100);
  EXPECT_EQ(rendered.error().code(), ErrorCode::kInvalidInput) << source.substr(0, 100);
  EXPECT_NE(rendered.error().message().find(part), std::string::npos) << rendered.error().message();
}

std::string repeat(std::string_view text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(TemplateLimits, NestedLoops) {
  expect_refused(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
      "{% endfor %}{% endfor %}",
      "steps");
  expect_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
}

TEST(TemplateLimits, Output) {
  expect_refused("{% for a in range(9999) %}" + repeat("x", 1000) + "{% endfor %}", "longer");
}

TEST(TemplateLimits, DoublingStrings) {
  const std::string grow = "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ";
  for (std::string step : {"ns.s + ns.s", "ns.s ~ ns.s", "ns.s * 2", "ns.s|replace('x', 'xx')", "[ns.s, ns.s]|join",
                           "'%s%s' % (ns.s, ns.s)", "'{0}{0}'.format(ns.s)", "ns.s.replace('', 'y')", "ns.s|tojson",
                           "ns.s.join([ns.s, ns.s, 'x'])", "('x' ~ ns.s)|indent(1000, true) ~ '\n' ~ ns.s"})
    EXPECT_FALSE(render(grow + step + " %}{% endfor %}{{ ns.s|length }}", Json::object(), small_limits()) &&
                 step != "ns.s|tojson")
        << step;
}

TEST(TemplateLimits, DoublingLists) {
  const std::string grow = "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ";
  for (std::string step : {"ns.s + ns.s", "ns.s * 2"})
    EXPECT_FALSE(render(grow + step + " %}{% endfor %}", Json::object(), small_limits())) << step;
}

// 2^100 leaves behind 100 values.
TEST(TemplateLimits, SharedSubtrees) {
  const std::string grow =
      "{% set ns = namespace(a=[], b=[]) %}{% for i in range(100) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (std::string use : {"{{ ns.a }}", "{{ ns.a|tojson }}", "{{ ns.a == ns.b }}", "{{ ns.a < ns.b }}",
                          "{{ ns.a in [ns.b] }}", "{{ [ns.a, ns.b]|sort }}", "{{ [ns.a, ns.b]|unique|list }}"})
    EXPECT_FALSE(render(grow + use, Json::object(), small_limits())) << use;
}

TEST(TemplateLimits, DeepValues) {
  expect_refused("{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}",
                 "nest deeper");
  expect_refused("{% set ns = namespace(s={}) %}{% for i in range(9999) %}{% set ns.s = {'a': ns.s} %}{% endfor %}",
                 "nest deeper");
}

TEST(TemplateLimits, ListsThatContainThemselves) {
  EXPECT_EQ(render_text("{% set l = [1] %}{% set _ = l.append(l) %}{{ (l|string)|length > 100 }}"), "True");
  EXPECT_FALSE(render("{% set l = [1] %}{% set _ = l.append(l) %}{{ l|tojson }}"));
  EXPECT_EQ(render_text("{% set a = [1] %}{% set b = [1] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}"
                        "{{ a == b }}"),
            "False");
  EXPECT_FALSE(
      render("{% set a = [1] %}{% set b = [1] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a < b }}"));
  EXPECT_EQ(render_text("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me.me is defined }}"), "True");
  // A chain that is built from its far end, so that no list knows how deep it nests.
  EXPECT_TRUE(
      render("{% set ns = namespace(l=[]) %}{% set head = [ns.l] %}{% for i in range(5000) %}{% set next = [] %}"
             "{% set _ = ns.l.append(next) %}{% set ns.l = next %}{% endfor %}{{ (head|string)|length }}"));
}

TEST(TemplateLimits, MacroRecursion) {
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested deeper");
  expect_refused("{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "nested deeper");
  expect_refused(
      "{% macro m(n) %}{% if n < 15 %}{{ m(n + 1) }}{{ m(n + 1) }}{% endif %}{% endmacro %}{{ m(0) }}{{ m(0) }}",
      "steps");
  expect_refused(
      "{% set l = [1] %}{% set _ = l.append(l) %}{% for x in l recursive %}"
      "{% if x is sequence %}{{ loop(x) }}{% endif %}{% endfor %}",
      "nested deeper");
}

TEST(TemplateLimits, DeepSource) {
  for (auto [open, close] : {std::pair{"(", ")"},
                             {"[", "]"},
                             {"{'a':", "}"},
                             {"not ", ""},
                             {"-", ""},
                             {"x(", ")"},
                             {"x[", "]"},
                             {"x|f(", ")"},
                             {"1 if 1 else ", ""},
                             {"x if ", ""}}) {
    const std::string source = "{{ " + repeat(open, 5'000) + "1" + repeat(close, 5'000) + " }}";
    EXPECT_FALSE(Template::parse(source)) << open;
  }
  for (const char* link : {".a", "[0]", "()", "|f", " if 1", " is x"})
    EXPECT_FALSE(Template::parse("{{ a" + repeat(link, 10'000) + " }}")) << link;
  EXPECT_FALSE(Template::parse(repeat("{% if 1 %}", 5'000)));
  EXPECT_FALSE(Template::parse(repeat("{% macro m() %}", 5'000)));
  EXPECT_FALSE(Template::parse("{% set " + repeat("(", 10'000)));
}

TEST(TemplateLimits, LongFlatSourceIsFine) {
  EXPECT_EQ(render_text("{{ 0" + repeat(" + 1", 5'000) + " }}"), "5000");
  EXPECT_EQ(render_text("{{ 0" + repeat(" ~ 1", 1'000) + " }}").size(), 1'001u);
  EXPECT_EQ(render_text("{{ 0" + repeat(" or 0", 5'000) + " }}"), "0");
  EXPECT_EQ(render_text("{{ 0" + repeat(" < 1", 1) + repeat(" < 2", 1'000) + " }}"), "False");
  EXPECT_EQ(render_text("{% if 0 %}" + repeat("{% elif 0 %}", 5'000) + "{% else %}x{% endif %}"), "x");
}

TEST(TemplateLimits, SourceSize) {
  auto parsed = Template::parse(repeat("x", (1 << 20) + 1));
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message().find("1048577"), std::string::npos);
  EXPECT_TRUE(Template::parse(repeat("x", 1 << 20)));
}

TEST(TemplateLimits, HostileBuiltins) {
  for (std::string source :
       {"{{ range(10 ** 18)|list }}", "{{ range(0, -(10 ** 18), -1) }}", "{{ 'x' * 10 ** 18 }}", "{{ [1] * 10 ** 18 }}",
        "{{ 'x'|center(10 ** 18) }}", "{{ '%999999999s' % 'x' }}", "{{ '%.999999999f' % 1.5 }}",
        "{{ '{:>999999999}'.format('x') }}", "{{ 'x'|indent(10 ** 9) }}", "{{ 'a\nb'|indent('y' * 1000000) }}",
        "{{ [1]|batch(10 ** 9, 'x')|list }}", "{{ [1]|slice(10 ** 9, 'x')|list }}", "{{ 2 ** 1000 }}",
        "{{ 9223372036854775807 + 1 }}", "{{ 99999999999999999999 }}", "{{ [1]|tojson(indent=10 ** 18) + '' }}"}) {
    auto rendered = render(source, Json::object(), small_limits());
    EXPECT_TRUE(!rendered || rendered->text.size() < 4096) << source;
  }
  EXPECT_EQ(
      render_text("{{ 'abc'[10 ** 18:] }}{{ 'abc'[:-(10 ** 18)] }}{{ 'abc'[::10 ** 18] }}{{ 'abc'[::-(10 ** 18)] }}"),
      "ac");
  EXPECT_FALSE(render("{{ -9223372036854775807 - 2 }}"));
  EXPECT_FALSE(render("{{ (-9223372036854775807 - 1) // -1 }}"));
  EXPECT_EQ(render_text("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

// Work on large texts is paid for, so that it cannot be done a million times.
TEST(TemplateLimits, RepeatedWorkOnLongText) {
  const Json context = {{"x", repeat("ab ", 300'000)}};
  for (std::string use :
       {"'zz' in x", "x == x ~ ''", "x|length", "x[1:2]", "x.split('q')", "x|upper", "x.count('z')", "x.find('z')",
        "x|trim", "x|replace('z', '')", "x|tojson", "x is lower", "x.strip()", "x[-1]"})
    EXPECT_FALSE(render("{% for i in range(99999) %}{% set y = " + use + " %}{% endfor %}", context, small_limits()))
        << use;
}

TEST(TemplateLimits, TenMegabytesOfContent) {
  const Json context = {{"messages", {{{"role", "user"}, {"content", repeat("é", 5'000'000)}}}}};
  auto rendered =
      render("{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim + '<|end|>' }}{% endfor %}", context);
  ASSERT_TRUE(rendered) << rendered.error().message();
  EXPECT_EQ(rendered->text.size(), 10'000'000u + 15u);
  EXPECT_EQ(rendered->trusted.size(), 3u);
}

TEST(TemplateLimits, ManyMessages) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", "some words"}});
  auto rendered = render(
      "{% set ns = namespace(text='') %}{% for m in messages %}{% if loop.previtem and loop.previtem.role == m.role %}!"
      "{% endif %}{% set ns.text = ns.text + '<|' + m.role + '|>' + m.content %}{% endfor %}{{ ns.text }}",
      {{"messages", messages}});
  ASSERT_TRUE(rendered) << rendered.error().message();
}

TEST(TemplateLimits, MemoryIsGivenBack) {
  // 2,000 strings of 100 kB, one at a time.
  RenderOptions options = small_limits();
  options.limits.steps = 10'000'000;
  auto rendered =
      render("{% for i in range(2000) %}{% set y = x + 'y' %}{% endfor %}ok", {{"x", repeat("x", 100'000)}}, options);
  EXPECT_TRUE(rendered) << rendered.error().message();
}

}  // namespace
}  // namespace tempo9::chat
