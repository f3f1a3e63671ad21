// Images in conversations. An image stands in a message's text as a mark: a word that nobody can guess, so that it goes
// through whatever is done with the text, the template included, and is found in the prompt again
// (docs/decisions/images-in-prompts.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/template.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Takes the images of one request while its messages are read. What the methods give is text to put in the image's
// place; errors are kInvalidInput with the field, and the reason unsupported_content or invalid_image.
class ImageReader {
 public:
  enum class Place : uint8_t { kMessage, kToolResult };

  // `can_see`: there is a vision tower. Without one, images in tool results become a note and all others are refused.
  ImageReader(bool can_see, size_t max_images);

  // `url`: "data:image/png;base64,…". Others are refused by name: a server on loopback that fetches what strangers name
  // would be a hole. The declared type does not matter.
  Result<std::string> read_url(std::string_view url, Place place, const std::string& field);
  // Base64, strictly; a "data:…," before it is left out.
  Result<std::string> read_base64(std::string_view text, Place place, const std::string& field);
  // A source that is never read ("a file id").
  Result<std::string> refuse(std::string_view source, Place place, const std::string& field) const;

  // Whether the text is an image's place and nothing else.
  bool is_mark(std::string_view text) const;

  std::vector<ImagePart> take() { return std::move(images_); }

 private:
  std::optional<Result<std::string>> without_tower(Place place, const std::string& field) const;

  bool can_see_;
  size_t max_images_;
  std::string secret_;
  std::vector<ImagePart> images_;
};

// What a family writes where an image stands (spec models 13.1), by the text of the vocabulary's tokens.
struct ImageMarkup {
  std::string begin;
  std::string placeholder;
  std::string end;
  int32_t placeholder_id = 0;
};
// Nothing when the vocabulary has no such tokens: the model takes no images. Walks the vocabulary.
std::optional<ImageMarkup> find_image_markup(const tokenizer::Tokenizer& tokenizer);

// The conversation's images whose marks stand in its messages.
std::vector<ImagePart> shown_images(const Conversation& conversation);

struct RenderedImages {
  Rendered rendered;          // each mark replaced by the markup with one placeholder, which counts as template text
  std::vector<size_t> order;  // of the images, as they come in the text
};
// Errors: kUnsupported when the template left an image out, or shows it more than once.
Result<RenderedImages> place_images(Rendered rendered, std::span<const ImagePart> images, const ImageMarkup& markup);

// Replaces the i-th placeholder among `ids`, from `first` on, by counts[i] of them. Gives where each image's first one
// stands. Errors: kInvalidInput when there are not as many placeholders as counts: text that spells one is none, but in
// a vocabulary that lets all text do so.
Result<std::vector<int64_t>> expand_placeholders(std::vector<int32_t>& ids, size_t first, int32_t placeholder,
                                                 std::span<const int64_t> counts);

}  // namespace tempo9::chat
