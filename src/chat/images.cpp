#include "chat/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/base64.h"
#include "chat/tool_messages.h"

namespace tempo9::chat {
namespace {

std::string make_secret() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::unexpected<Error> unsupported(std::string message, const std::string& field) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_field(field).with_reason("unsupported_content"));
}

std::unexpected<Error> invalid(std::string message, const std::string& field) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_field(field).with_reason("invalid_image"));
}

struct Family {
  std::string_view begin, placeholder, end;
};
constexpr Family kFamilies[] = {
    {"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},       // Qwen
    {"<start_of_image>", "<image_soft_token>", "<end_of_image>"},  // Gemma 3
    {"<|image>", "<|image|>", "<image|>"},                         // Gemma 4
};

struct Found {
  size_t begin = 0;
  size_t image = 0;
};

// The marks in the text, in their order there.
std::vector<Found> find_marks(std::string_view text, std::span<const ImagePart> images) {
  std::vector<Found> found;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string& mark = images[i].mark;
    for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size())) {
      found.push_back({.begin = at, .image = i});
    }
  }
  std::ranges::sort(found, {}, &Found::begin);
  return found;
}

// Copies a text piece by piece, with what of it the template wrote.
class Copier {
 public:
  explicit Copier(const Rendered& from) : from_(from) {}

  void copy_to(size_t end) {
    while (range_ < from_.trusted.size() && from_.trusted[range_].begin < end) {
      const auto& range = from_.trusted[range_];
      const size_t begin = std::max<size_t>(range.begin, at_);
      if (begin < std::min<size_t>(range.end, end)) trust(begin - at_, std::min<size_t>(range.end, end) - at_);
      if (range.end > end) break;
      ++range_;
    }
    to_.text.append(from_.text, at_, end - at_);
    at_ = end;
  }
  void skip(size_t n) { at_ += n; }
  void write(std::string_view text) {
    trust(0, text.size());
    to_.text += text;
  }
  Rendered take() { return std::move(to_); }

 private:
  // Of what is appended next.
  void trust(size_t begin, size_t end) {
    begin += to_.text.size();
    end += to_.text.size();
    if (!to_.trusted.empty() && to_.trusted.back().end == begin) {
      to_.trusted.back().end = end;
    } else {
      to_.trusted.push_back({begin, end});
    }
  }

  const Rendered& from_;
  Rendered to_;
  size_t at_ = 0;
  size_t range_ = 0;
};

}  // namespace

ImageReader::ImageReader(bool can_see, size_t max_images)
    : can_see_(can_see), max_images_(max_images), secret_(can_see ? make_secret() : std::string()) {}

std::optional<Result<std::string>> ImageReader::without_tower(Place place, const std::string& field) const {
  if (can_see_) return std::nullopt;
  if (place == Place::kToolResult) return std::string(kImageNote);
  return unsupported("image input needs a vision tower; start the server with --tower", field);
}

Result<std::string> ImageReader::refuse(std::string_view source, Place place, const std::string& field) const {
  if (auto answer = without_tower(place, field)) return *std::move(answer);
  return unsupported(fmt::format("images from {} are not supported: send the image itself, as base64", source), field);
}

Result<std::string> ImageReader::read_url(std::string_view url, Place place, const std::string& field) {
  if (url.starts_with("data:")) return read_base64(url, place, field);
  const size_t colon = url.find("://");
  const std::string_view scheme = colon == std::string_view::npos ? "" : url.substr(0, colon);
  if (scheme == "http" || scheme == "https") return refuse("http(s) URLs", place, field);
  if (scheme == "file") return refuse("files", place, field);
  return refuse("other places than data URLs", place, field);
}

Result<std::string> ImageReader::read_base64(std::string_view text, Place place, const std::string& field) {
  if (auto answer = without_tower(place, field)) return *std::move(answer);
  const bool is_data_url = text.starts_with("data:");
  if (!is_data_url && text.substr(0, 16).find("://") != std::string_view::npos) return read_url(text, place, field);
  if (is_data_url) {
    const size_t comma = text.find(',');
    if (comma == std::string_view::npos || !text.substr(0, comma).ends_with(";base64")) {
      return invalid("the data URL is not in base64", field);
    }
    text.remove_prefix(comma + 1);
  }
  auto bytes = decode_base64(text);
  if (!bytes || bytes->empty()) return invalid("the image's data is not base64", field);
  if (images_.size() == max_images_) {
    return invalid(fmt::format("the request has more than {} images", max_images_), field);
  }
  std::string mark = fmt::format("zqximage{}n{}z", secret_, images_.size());
  images_.push_back({.mark = mark, .file = std::make_shared<const std::string>(*std::move(bytes)), .field = field});
  return mark;
}

bool ImageReader::is_mark(std::string_view text) const {
  return std::ranges::any_of(images_, [&](const ImagePart& image) { return image.mark == text; });
}

std::optional<ImageMarkup> find_image_markup(const tokenizer::Tokenizer& tokenizer) {
  for (const Family& family : kFamilies) {
    int n_found = 0;
    ImageMarkup markup{.begin = std::string(family.begin),
                       .placeholder = std::string(family.placeholder),
                       .end = std::string(family.end)};
    for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
      const std::string_view text = tokenizer.token_text(id);
      if (text != family.begin && text != family.placeholder && text != family.end) continue;
      ++n_found;
      if (text == family.placeholder) markup.placeholder_id = id;
    }
    if (n_found == 3) return markup;
  }
  return std::nullopt;
}

std::vector<ImagePart> shown_images(const Conversation& conversation) {
  std::vector<ImagePart> images = conversation.images;
  std::erase_if(images, [&](const ImagePart& image) {
    return std::ranges::none_of(conversation.messages, [&](const Message& message) {
      return message.content.find(image.mark) != std::string::npos;
    });
  });
  return images;
}

Result<RenderedImages> place_images(Rendered rendered, std::span<const ImagePart> images, const ImageMarkup& markup) {
  const std::vector<Found> marks = find_marks(rendered.text, images);
  std::vector<size_t> order;
  std::vector<bool> is_placed(images.size());
  for (const Found& mark : marks) {
    order.push_back(mark.image);
    is_placed[mark.image] = true;
  }
  if (marks.size() != images.size() || std::ranges::find(is_placed, false) != is_placed.end()) {
    return fail(
        Error(ErrorCode::kUnsupported, fmt::format("The chat template shows {} images where the conversation has {}.",
                                                   marks.size(), images.size()))
            .with_reason("template_error"));
  }
  Copier copier(rendered);
  for (const Found& mark : marks) {
    copier.copy_to(mark.begin);
    copier.skip(images[mark.image].mark.size());
    copier.write(markup.begin + markup.placeholder + markup.end);
  }
  copier.copy_to(rendered.text.size());
  return RenderedImages{.rendered = copier.take(), .order = std::move(order)};
}

Result<std::vector<int64_t>> expand_placeholders(std::vector<int32_t>& ids, size_t first, int32_t placeholder,
                                                 std::span<const int64_t> counts) {
  const auto n_found =
      std::count(ids.begin() + static_cast<int64_t>(std::min(first, ids.size())), ids.end(), placeholder);
  if (n_found != std::ssize(counts)) {
    return fail(Error(ErrorCode::kInvalidInput,
                      fmt::format("The prompt has {} placeholders for {} images.", n_found, counts.size()))
                    .with_reason("template_error"));
  }
  std::vector<int32_t> expanded;
  std::vector<int64_t> begins;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i < first || ids[i] != placeholder) {
      expanded.push_back(ids[i]);
      continue;
    }
    const int64_t count = counts[begins.size()];
    begins.push_back(std::ssize(expanded));
    expanded.insert(expanded.end(), static_cast<size_t>(count), placeholder);
  }
  ids = std::move(expanded);
  return begins;
}

}  // namespace tempo9::chat
