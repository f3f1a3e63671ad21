#include "vision/decode/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "support/data.h"
#include "vision/decode/exif.h"

namespace tempo9::vision {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Bytes golden(const std::string& name) { return read_file(testing::golden_path("images/" + name)); }

std::vector<std::string> all_goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden_path("images"))) {
    if (entry.path().extension() == ".ppm") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

struct Ppm {
  int32_t width = 0;
  int32_t height = 0;
  Bytes rgb;
};

Ppm read_ppm(const std::string& name) {
  std::ifstream file(testing::golden_path("images/" + name + ".ppm"), std::ios::binary);
  std::string magic;
  int32_t most = 0;
  Ppm ppm;
  file >> magic >> ppm.width >> ppm.height >> most;
  file.get();
  ppm.rgb = Bytes(std::istreambuf_iterator<char>(file), {});
  return ppm;
}

class DecodeGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(DecodeGolden, PixelsAreThoseOfTheReference) {
  const Bytes bytes = golden(GetParam());
  const auto image = decode_image(bytes);
  ASSERT_TRUE(image.has_value()) << image.error().message();
  const Ppm expected = read_ppm(GetParam());
  EXPECT_EQ(image->width, expected.width);
  EXPECT_EQ(image->height, expected.height);
  ASSERT_EQ(image->rgb.size(), expected.rgb.size());
  // Lossy formats leave their decoders a rounding; the others none.
  const bool is_lossy = GetParam().ends_with(".jpg") || GetParam().starts_with("lossy");
  int most = 0;
  for (size_t i = 0; i < image->rgb.size(); ++i) most = std::max(most, std::abs(image->rgb[i] - expected.rgb[i]));
  EXPECT_LE(most, is_lossy ? 3 : 0);
}

INSTANTIATE_TEST_SUITE_P(Files, DecodeGolden, ::testing::ValuesIn(all_goldens()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

void expect_refused(const Bytes& bytes, std::string_view what) {
  const auto image = decode_image(bytes);
  ASSERT_FALSE(image.has_value()) << what;
  EXPECT_EQ(image.error().code(), ErrorCode::kInvalidInput) << what;
  EXPECT_EQ(image.error().reason(), "invalid_image") << what;
  EXPECT_FALSE(image.error().message().empty()) << what;
}

// What is not refused is an image like any other.
void expect_sound(const Bytes& bytes, std::string_view what) {
  const auto image = decode_image(bytes);
  if (!image) return expect_refused(bytes, what);
  EXPECT_GT(image->width, 0) << what;
  EXPECT_GT(image->height, 0) << what;
  EXPECT_EQ(image->rgb.size(), static_cast<size_t>(image->width) * static_cast<size_t>(image->height) * 3) << what;
}

std::vector<std::filesystem::path> damaged_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden_path("images/damaged/" + folder))) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// goldens/images/make_damaged.py says what is wrong with each.
TEST(DamagedImages, TheCorpusIsRefusedOrRead) {
  const auto refused = damaged_files("refused"), read = damaged_files("read");
  EXPECT_GE(refused.size(), 40U);
  for (const auto& file : refused) expect_refused(read_file(file), file.filename().string());
  for (const auto& file : read) {
    const auto image = decode_image(read_file(file));
    ASSERT_TRUE(image.has_value()) << file.filename() << ": " << image.error().message();
    EXPECT_LE(image->width, 13) << file.filename() << " was turned";
    EXPECT_GE(image->width, image->height) << file.filename() << " was turned";
    expect_sound(read_file(file), file.filename().string());
  }
}

constexpr const char* kSources[] = {"rgb.png",  "interlaced.png", "palette.png", "baseline.jpg",  "progressive.jpg",
                                    "cmyk.jpg", "lossless.webp",  "lossy.webp",  "animated.webp", "plain.gif"};

TEST(DamagedImages, FilesThatEndTooEarlyAreRefused) {
  for (const std::string name : kSources) {
    const Bytes whole = golden(name);
    for (const double part : {0.1, 0.4, 0.7}) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<int64_t>(part * static_cast<double>(whole.size())));
      // Of an animation the first picture may be whole already.
      if (name.starts_with("animated")) {
        expect_sound(cut, name);
      } else {
        expect_refused(cut, name);
      }
    }
  }
}

TEST(DamagedImages, ChangedBytesGiveAnImageOrAnError) {
  std::mt19937 random(9);
  for (const std::string name : kSources) {
    const Bytes whole = golden(name);
    for (int round = 0; round < 100; ++round) {
      Bytes damaged = whole;
      const int n_changes = 1 + round % 4;
      for (int i = 0; i < n_changes; ++i) damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
      expect_sound(damaged, name);
    }
  }
}

// A PNG's size, told by its header, without the data for it; the checksum is not right, and need not be.
TEST(DamagedImages, SizesThatLieAreRefusedBeforeMemoryIsTaken) {
  for (const uint32_t side : {0u, 0x7fffffffu, 0xffffffffu, 100'000u}) {
    Bytes png = golden("rgb.png");
    for (size_t i = 0; i < 4; ++i) png[16 + i] = png[20 + i] = static_cast<uint8_t>(side >> (24 - 8 * i));
    expect_refused(png, "png");
  }
  Bytes gif = golden("plain.gif");
  gif[6] = gif[7] = gif[8] = gif[9] = 0xff;
  expect_refused(gif, "gif");
  Bytes jpeg = golden("baseline.jpg");
  for (size_t at = 2; at + 9 < jpeg.size(); ++at) {
    if (jpeg[at] != 0xff || jpeg[at + 1] != 0xc0) continue;
    std::fill_n(jpeg.begin() + static_cast<int64_t>(at) + 5, 4, 0xff);
    break;
  }
  expect_refused(jpeg, "jpeg");
}

TEST(DamagedImages, NothingAndNonsenseAreRefused) {
  expect_refused({}, "empty");
  expect_refused({0}, "one byte");
  expect_refused(Bytes(1000, 0xff), "no format");
  expect_refused({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, "a PNG's signature");
  expect_refused({0xff, 0xd8, 0xff}, "a JPEG's signature");
  expect_refused({'R', 'I', 'F', 'F', 4, 0, 0, 0, 'W', 'E', 'B', 'P'}, "a WebP's signature");
  expect_refused({'G', 'I', 'F', '8', '9', 'a'}, "a GIF's signature");
}

::testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" without \"" << part << "\"";
}

std::string message_of(std::string_view text) {
  const auto image = decode_image(Bytes(text.begin(), text.end()));
  return image ? "" : image.error().message();
}

TEST(Decode, OtherFormatsAreNamed) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(contains(message_of("BM\x46\0\0\0"sv), "BMP images are not supported: send PNG"));
  EXPECT_TRUE(contains(message_of("\0\0\0\x18"
                                  "ftypheic\0\0\0\0"sv),
                       "HEIC"));
  EXPECT_TRUE(contains(message_of("\0\0\0\x18"
                                  "ftypavif\0\0\0\0"sv),
                       "AVIF"));
  EXPECT_TRUE(contains(message_of("<svg xmlns='http://www.w3.org/2000/svg'/>"sv), "SVG"));
  EXPECT_TRUE(contains(message_of("II*\0\x08\0\0\0"sv), "TIFF"));
  EXPECT_TRUE(contains(message_of("%PDF-1.7"sv), "PDF"));
}

TEST(Decode, LimitsNameBothNumbers) {
  const Bytes png = golden("rgb.png");
  EXPECT_TRUE(contains(decode_image(png, {.max_bytes = 10}).error().message(), "10 are allowed"));
  EXPECT_TRUE(contains(decode_image(png, {.max_side = 12}).error().message(), "13 by 9 pixels, 12"));
  EXPECT_TRUE(contains(decode_image(png, {.max_pixels = 116}).error().message(), "13 by 9 pixels, 116"));
  EXPECT_TRUE(decode_image(png, {.max_side = 13, .max_pixels = 117}).has_value());
  EXPECT_TRUE(contains(decode_image(golden("progressive.jpg"), {.max_work = 200}).error().message(),
                       "scans of 13 by 9 pixels"));
  for (const char* name : {"rgb.png", "baseline.jpg", "lossless.webp", "animated.webp", "plain.gif"}) {
    EXPECT_FALSE(decode_image(golden(name), {.max_side = 12}).has_value()) << name;
  }
}

// Field report H04.
TEST(Decode, LongSidesAreTaken) {
  const auto image = decode_image(golden("long.png"));
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->width, 20'000);
  EXPECT_EQ(image->height, 2);
}

TEST(Exif, NonsenseIsUpright) {
  EXPECT_EQ(exif_orientation({}), 1);
  const Bytes looped = {'I', 'I', 42, 0, 8, 0, 0, 0, 0xff, 0xff};
  EXPECT_EQ(exif_orientation(looped), 1);
  Bytes entry = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
  EXPECT_EQ(exif_orientation(entry), 6);
  entry[19] = 9;
  EXPECT_EQ(exif_orientation(entry), 1);
  entry[7] = 0xff;
  EXPECT_EQ(exif_orientation(entry), 1);
}

}  // namespace
}  // namespace tempo9::vision
