#include "vision/image_service.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <iterator>

#include "support/data.h"
#include "vision/fake_encoder.h"

namespace tempo9::vision {
namespace {

using Rows = ImageService::Rows;

std::shared_ptr<const std::string> file(const std::string& name) {
  std::ifstream in(testing::golden_path("images/" + name), std::ios::binary);
  return std::make_shared<const std::string>(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

class ImageServiceTest : public ::testing::Test {
 protected:
  SeenImage see(const std::string& name) { return service_.look_at(file(name)).value(); }

  // The answer, and what cancels it.
  struct Asked {
    std::shared_ptr<std::promise<Result<Rows>>> promise = std::make_shared<std::promise<Result<Rows>>>();
    std::shared_ptr<ImageService::Request> request;
    std::future<Result<Rows>> answer = promise->get_future();
  };
  Asked ask(const std::vector<SeenImage>& images) {
    Asked asked;
    asked.request =
        service_.encode(images, [promise = asked.promise](Result<Rows> rows) { promise->set_value(std::move(rows)); });
    return asked;
  }
  Rows rows_of(const std::vector<SeenImage>& images) {
    Asked asked = ask(images);
    return asked.answer.get().value();
  }

  testing::FakeEncoder encoder_;
  ImageService service_{encoder_, {.cache_bytes = 2000}};  // each golden image gives 12 rows of 4 floats: 192 bytes
};

TEST_F(ImageServiceTest, EqualPixelsAreOneImageWhateverTheFile) {
  const SeenImage png = see("rgb.png");
  EXPECT_EQ(png.grid.n_tokens(), 12);
  EXPECT_EQ(png.n_pixels, 13 * 9);
  EXPECT_EQ(see("lossless.webp").digest, png.digest);
  EXPECT_NE(see("grey.png").digest, png.digest);
  testing::FakeEncoder other(4, "another tower");
  EXPECT_NE(ImageService(other, {}).look_at(file("rgb.png"))->digest, png.digest);
}

TEST_F(ImageServiceTest, ARepeatedImageCostsNoEncoding) {
  const Rows first = rows_of({see("rgb.png"), see("grey.png"), see("rgb.png")});
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0]->rows, first[1]->rows);
  EXPECT_EQ(rows_of({see("lossless.webp")})[0], first[0]);
  EXPECT_EQ(encoder_.n_encoded, 2);
  EXPECT_EQ(service_.stats().encoded, 2u);
  EXPECT_EQ(service_.stats().hits, 2u);
  EXPECT_EQ(service_.stats().cached_bytes, 384u);
  EXPECT_TRUE(rows_of({}).empty());
}

TEST_F(ImageServiceTest, SeveralThatWaitForOneImageEncodeItOnce) {
  encoder_.hold(true);
  std::vector<Asked> asked;
  for (int i = 0; i < 5; ++i) asked.push_back(ask({see("rgb.png")}));
  EXPECT_EQ(service_.stats().waiting, 1);
  encoder_.hold(false);
  for (Asked& one : asked) EXPECT_TRUE(one.answer.get().has_value());
  EXPECT_EQ(encoder_.n_encoded, 1);
  EXPECT_EQ(service_.stats().waiting, 0);
}

TEST_F(ImageServiceTest, WhatNobodyWaitsForStops) {
  encoder_.hold(true);
  Asked first = ask({see("rgb.png")}), second = ask({see("rgb.png")}), behind = ask({see("grey.png")});
  ASSERT_TRUE(encoder_.wait_begun(1));
  service_.cancel(*first.request);
  EXPECT_EQ(service_.stats().cancelled, 0u) << "the second still waits";
  service_.cancel(*second.request);
  ASSERT_TRUE(encoder_.wait_begun(2)) << "the next one's turn";
  EXPECT_EQ(service_.stats().cancelled, 1u);
  service_.cancel(*behind.request);
  // Who comes meanwhile gets an encoding of its own.
  Asked again = ask({see("rgb.png")});
  encoder_.hold(false);
  EXPECT_TRUE(again.answer.get().has_value());
  EXPECT_EQ(encoder_.n_encoded, 1);
  service_.cancel(*again.request);
}

TEST_F(ImageServiceTest, FailuresReachThoseWhoWaitAndNoOneElse) {
  encoder_.fails = true;
  EXPECT_EQ(ask({see("rgb.png")}).answer.get().error().message(), "the tower fell");
  encoder_.fails = false;
  EXPECT_EQ(rows_of({see("rgb.png")}).size(), 1u);
  EXPECT_EQ(service_.stats().failed, 1u);
}

TEST_F(ImageServiceTest, WhatCannotBeLookedAtIsRefused) {
  EXPECT_EQ(service_.look_at(std::make_shared<const std::string>("GIF89a")).error().reason(), "invalid_image");
  testing::FakeEncoder encoder;
  ImageService strict(encoder, {.limits = {.max_side = 10}});
  EXPECT_EQ(strict.look_at(file("rgb.png")).error().reason(), "invalid_image");
}

TEST_F(ImageServiceTest, TheServiceEndsWhileImagesWait) {
  testing::FakeEncoder encoder;
  encoder.hold(true);
  std::promise<Result<Rows>> first, second;
  {
    ImageService service(encoder, {});
    service.encode({*service.look_at(file("rgb.png"))}, [&](Result<Rows> rows) { first.set_value(std::move(rows)); });
    service.encode({*service.look_at(file("grey.png"))}, [&](Result<Rows> rows) { second.set_value(std::move(rows)); });
    ASSERT_TRUE(encoder.wait_begun(1));
  }
  EXPECT_EQ(first.get_future().get().error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(second.get_future().get().error().code(), ErrorCode::kCancelled);
}

TEST(LatestUsed, StaysWithinItsRoom) {
  LatestUsed<int> kept(100);
  for (int i = 0; i < 10; ++i) {
    kept.put(std::to_string(i), i, 30);
    EXPECT_EQ(kept.find("0"), 0) << "used each time";
    EXPECT_LE(kept.size(), 100u);
  }
  EXPECT_EQ(kept.n_entries(), 3u);
  EXPECT_FALSE(kept.find("5"));
  kept.put("large", 1, 101);
  EXPECT_FALSE(kept.find("large"));
}

}  // namespace
}  // namespace tempo9::vision
