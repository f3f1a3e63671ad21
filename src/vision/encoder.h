// Turns an image into rows for the language model. The one interface between those who run a vision tower and those
// who serve requests with images; tests put a made-up encoder behind it.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "vision/image.h"

namespace tempo9::vision {

// How the rows of one image lie: row-major, one row of the language model per cell (patches already merged).
struct TokenGrid {
  int32_t height = 0;
  int32_t width = 0;
  int64_t n_tokens() const { return int64_t{height} * width; }
};

struct ImageEmbeddings {
  TokenGrid grid;
  int64_t cols = 0;         // of a row: the model's width, and more for deepstack (models::embedding_cols)
  std::vector<float> rows;  // grid.n_tokens() * cols
};

class ImageEncoder {
 public:
  virtual ~ImageEncoder() = default;

  // The cells that an image of this size becomes; cheap, and what encode() then yields. Error: kInvalidInput with a
  // message for the client when the encoder takes no such size (too thin, too large).
  virtual Result<TokenGrid> grid_of(int32_t width, int32_t height) const = 0;
  virtual int64_t embedding_cols() const = 0;
  // Tells towers apart: equal pixels under equal identities give equal rows. Part of the prefix cache's keys.
  virtual const std::string& identity() const = 0;
  // Where it runs, for people: "cpu: AMX with AVX-512 VNNI, 1 thread of its own". May be empty.
  virtual std::string description() const { return {}; }

  // Blocks until done; may be called from several threads, which then wait for each other. kCancelled soon after
  // `stop` is requested.
  virtual Result<ImageEmbeddings> encode(const Image& image, std::stop_token stop) = 0;
};

}  // namespace tempo9::vision
