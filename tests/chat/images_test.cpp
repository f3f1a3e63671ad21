#include "chat/images.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "chat/chat_format.h"
#include "chat/tool_messages.h"
#include "support/data.h"

namespace tempo9::chat {
namespace {

using Place = ImageReader::Place;

const ImageMarkup kMarkup{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>", 9};
constexpr std::string_view kShown = "<|vision_start|><|image_pad|><|vision_end|>";

std::vector<ImagePart> parts(std::initializer_list<const char*> marks) {
  std::vector<ImagePart> images;
  for (const char* mark : marks) images.push_back({.mark = mark, .file = nullptr, .field = ""});
  return images;
}

// "text[trusted]text"
std::string outline(const Rendered& rendered) {
  std::string text = rendered.text;
  for (auto range = rendered.trusted.rbegin(); range != rendered.trusted.rend(); ++range) {
    text.insert(range->end, "]");
    text.insert(range->begin, "[");
  }
  return text;
}

TEST(PlaceImages, MarksBecomeTextOfTheTemplate) {
  const Rendered rendered{.text = "user:aMbNc:end", .trusted = {{0, 5}, {10, 14}}};
  const auto placed = place_images(rendered, parts({"N", "M"}), kMarkup);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(outline(placed->rendered), fmt::format("[user:]a[{0}]b[{0}]c[:end]", kShown));
  EXPECT_EQ(placed->order, (std::vector<size_t>{1, 0}));
}

TEST(PlaceImages, RangesMeetAndSplit) {
  const Rendered rendered{.text = "aMbM", .trusted = {{0, 4}}};
  EXPECT_FALSE(place_images(rendered, parts({"M"}), kMarkup).has_value()) << "shown twice";
  const auto placed = place_images({.text = "aMb", .trusted = {{0, 3}}}, parts({"M"}), kMarkup);
  EXPECT_EQ(outline(placed->rendered), fmt::format("[a{}b]", kShown));
  const auto missing = place_images({.text = "ab", .trusted = {}}, parts({"M"}), kMarkup);
  EXPECT_EQ(missing.error().reason(), "template_error");
}

TEST(ExpandPlaceholders, GivesEachImageItsRows) {
  std::vector<int32_t> ids = {9, 1, 9, 2, 9, 3};
  const std::vector<int64_t> counts = {3, 1};
  const auto begins = expand_placeholders(ids, 1, 9, counts);
  ASSERT_TRUE(begins.has_value());
  EXPECT_EQ(*begins, (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(ids, (std::vector<int32_t>{9, 1, 9, 9, 9, 2, 9, 3}));
  EXPECT_FALSE(expand_placeholders(ids, 0, 9, counts).has_value());
  EXPECT_TRUE(expand_placeholders(ids, 100, 9, {}).has_value());
}

TEST(ImageReader, MarksCannotBeGuessed) {
  ImageReader first(true, 8), second(true, 8);
  const std::string mark = first.read_base64("AAAA", Place::kMessage, "f").value();
  EXPECT_NE(mark, second.read_base64("AAAA", Place::kMessage, "f").value());
  EXPECT_NE(mark, first.read_base64("AAAA", Place::kToolResult, "f").value());
  EXPECT_TRUE(first.is_mark(mark));
  EXPECT_FALSE(first.is_mark(mark + " "));
  EXPECT_EQ(first.take().size(), 2u);
}

TEST(ImageReader, TakesBase64AndNothingElse) {
  ImageReader images(true, 2);
  EXPECT_TRUE(images.read_url("data:image/png;base64,AAAA", Place::kMessage, "f").has_value());
  EXPECT_TRUE(images.read_url("data:;base64,AAAA", Place::kMessage, "f").has_value());
  EXPECT_EQ(images.read_base64("AAAA", Place::kMessage, "f").error().reason(), "invalid_image") << "the limit";
  for (const char* url : {"", "data:", "data:,x", "data:image/png;base64,", "data:image/png;base64,A A",
                          "http://x/y.png", "https://x", "file:///x", "ftp://x", "/x", "C:\\x.png"}) {
    const auto refused = images.read_url(url, Place::kMessage, "f");
    ASSERT_FALSE(refused.has_value()) << url;
    EXPECT_EQ(refused.error().field(), "f");
  }
}

TEST(ImageReader, WithoutATowerToolResultsKeepANote) {
  ImageReader images(false, 8);
  EXPECT_EQ(images.read_url("https://x", Place::kToolResult, "f").value(), kImageNote);
  EXPECT_EQ(images.read_url("https://x", Place::kMessage, "f").error().reason(), "unsupported_content");
  EXPECT_TRUE(images.take().empty());
}

// What templates that know images write for content parts is what a mark becomes.
TEST(PlaceImages, ATemplateThatKnowsImagesWritesTheSame) {
  const std::string path = tempo9::testing::reference_path("templates/Qwen3.5-4B.jinja");
  T9_NEED_DATA(path);
  std::ifstream in(path);
  const auto format = ChatFormat::from_source(std::string(std::istreambuf_iterator<char>(in), {}), "", "<|im_end|>");
  const auto now = std::chrono::system_clock::now();
  const Json image = {{"type", "image"}};
  const auto text = [](const char* words) { return Json{{"type", "text"}, {"text", words}}; };
  const Json call = {
      {"id", "a"}, {"type", "function"}, {"function", {{"name", "shot"}, {"arguments", Json::object()}}}};
  const auto raw = format.render_raw({{"messages",
                                       {{{"role", "user"}, {"content", {text("look: "), image, image, text("what?")}}},
                                        {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
                                        {{"role", "tool"}, {"content", {text("done"), image}}, {"tool_call_id", "a"}}}},
                                      {"add_generation_prompt", true}},
                                     now);
  ASSERT_TRUE(raw.has_value()) << raw.error().message();
  Conversation conversation;
  conversation.images = parts({"markone", "marktwo", "markthree"});
  conversation.messages.push_back({.role = Role::kUser, .content = "look: markonemarktwowhat?"});
  conversation.messages.push_back({.role = Role::kAssistant, .content = ""});
  conversation.messages.back().tool_calls.push_back({.id = "a", .name = "shot", .arguments = Json::object()});
  conversation.messages.push_back({.role = Role::kTool, .content = "donemarkthree", .tool_call_id = "a"});
  const auto rendered = format.render(conversation, now);
  ASSERT_TRUE(rendered.has_value()) << rendered.error().message();
  const auto placed = place_images(*rendered, shown_images(conversation), kMarkup);
  ASSERT_TRUE(placed.has_value()) << placed.error().message();
  EXPECT_EQ(placed->rendered.text, raw->text);
  EXPECT_EQ(placed->order, (std::vector<size_t>{0, 1, 2}));
  conversation.messages.pop_back();
  EXPECT_EQ(shown_images(conversation).size(), 2u) << "those of messages that are gone are gone";
}

}  // namespace
}  // namespace tempo9::chat
