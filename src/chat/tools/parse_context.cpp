#include "chat/tools/parse_context.h"

#include <algorithm>
#include <string>

namespace tempo9::chat::tools {
namespace {

// A marker in a text, or the end of the text where one may begin.
struct Found {
  size_t position;
  size_t marker = kNoMarker;  // kNoMarker: what is there could become one
};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

bool is_at_line_start(std::string_view text, size_t position, bool starts_line) {
  const size_t newline = position == 0 ? std::string_view::npos : text.rfind('\n', position - 1);
  if (newline == std::string_view::npos) return starts_line && is_blank(text.substr(0, position));
  return is_blank(text.substr(newline + 1, position - newline - 1));
}

// The earliest marker in `text`, or the earliest place where one may have begun when more text may follow.
Found find_marker(std::string_view text, std::span<const Marker> markers, bool starts_line, bool has_ended) {
  std::string first_bytes;
  for (const Marker& marker : markers) first_bytes += marker.text.front();
  for (size_t at = text.find_first_of(first_bytes); at != std::string_view::npos;
       at = text.find_first_of(first_bytes, at + 1)) {
    const std::string_view rest = text.substr(at);
    bool is_partial = false;
    for (size_t i = 0; i < markers.size(); ++i) {
      if (markers[i].at_line_start && !is_at_line_start(text, at, starts_line)) continue;
      if (rest.starts_with(markers[i].text)) return {at, i};
      is_partial = is_partial || markers[i].text.starts_with(rest);
    }
    if (is_partial && !has_ended) return {at};
  }
  return {text.size()};
}

void pass_reasoning(ParseContext& context, size_t n_bytes) {
  context.out.reasoning(context.in.ahead().substr(0, n_bytes));
  context.in.advance(n_bytes);
}

}  // namespace

void ParseContext::pass_content(std::string_view text, size_t source_begin) {
  const size_t newline = text.rfind('\n');
  const bool was_line_start = newline != std::string_view::npos || is_line_start;
  is_line_start = was_line_start && is_blank(newline == std::string_view::npos ? text : text.substr(newline + 1));
  out.content(text, source_begin);
}

void ParseContext::pass_content(size_t n_bytes) {
  pass_content(in.ahead().substr(0, n_bytes), in.position());
  in.advance(n_bytes);
}

void ParseContext::pass_content_from(const TextSource::Checkpoint& begin) {
  pass_content(begin.text(), begin.position());
}

Task<size_t> pass_content_until(ParseContext& context, std::span<const Marker> markers) {
  for (;;) {
    if (!co_await context.in.need(1)) co_return kNoMarker;
    const Found found = find_marker(context.in.ahead(), markers, context.is_line_start, context.in.has_ended());
    context.pass_content(found.position);
    if (found.marker != kNoMarker) co_return found.marker;
    if (!context.in.ahead().empty()) co_await context.in.need(context.in.ahead().size() + 1);
  }
}

Task<size_t> pass_reasoning_until(ParseContext& context, std::span<const Marker> markers) {
  context.in_reasoning = true;
  size_t marker = kNoMarker;
  while (co_await context.in.need(1)) {
    const Found found = find_marker(context.in.ahead(), markers, false, context.in.has_ended());
    pass_reasoning(context, found.position);
    marker = found.marker;
    if (marker != kNoMarker) break;
    if (!context.in.ahead().empty()) co_await context.in.need(context.in.ahead().size() + 1);
  }
  context.in_reasoning = marker == kNoMarker;
  co_return marker;
}

Task<bool> read_reasoning(ParseContext& context, const ReasoningTags& tags) {
  TextSource& in = context.in;
  {
    const bool is_open = context.options.start == Start::kInReasoning;
    TextSource::Checkpoint begin(in);
    context.in_reasoning = is_open;
    co_await in.skip_space();
    if (co_await in.at(tags.open)) {
      in.advance(tags.open.size());
    } else if (!is_open) {
      if (co_await in.at(tags.close)) {
        in.advance(tags.close.size());
      } else {
        begin.rewind();
      }
      co_return false;
    }
  }
  const Marker markers[] = {{tags.close}, {tags.call_open}};
  const size_t n_markers = context.has_tools() && !tags.call_open.empty() ? 2 : 1;
  for (;;) {
    const size_t found = co_await pass_reasoning_until(context, {markers, n_markers});
    if (found == kNoMarker) co_return false;
    if (found == 0) {
      in.advance(tags.close.size());
      context.out.end_reasoning();
      co_return false;
    }
    const bool is_call = !tags.is_call || co_await tags.is_call(context);
    if (is_call) {
      context.out.end_reasoning();
      co_return true;
    }
    pass_reasoning(context, tags.call_open.size());
  }
}

Task<bool> is_json_content(ParseContext& context, std::string_view call_open) {
  if (!context.options.content_is_json) co_return false;
  TextSource::Checkpoint begin(context.in);
  co_await context.in.skip_space();
  const bool is_call = co_await context.in.at(call_open);
  begin.rewind();
  co_return !is_call;
}

Task<bool> skip_tag(TextSource& in, std::string_view tag) {
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  const bool is_whole = co_await in.at(tag);
  const bool is_cut = !is_whole && !in.ahead().empty() && tag.starts_with(in.ahead());
  if (is_whole || is_cut) {
    in.advance(std::min(tag.size(), in.ahead().size()));
  } else {
    begin.rewind();
  }
  co_return is_whole || is_cut;
}

}  // namespace tempo9::chat::tools
