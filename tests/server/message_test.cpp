#include "server/http/message.h"

#include <gtest/gtest.h>

namespace tempo9::server::http {
namespace {

TEST(HttpMessage, PathIsTheTargetWithoutQueryAndTrailingSlash) {
  EXPECT_EQ(path_of_target("/"), "/");
  EXPECT_EQ(path_of_target("/v1/models/"), "/v1/models");
  EXPECT_EQ(path_of_target("/v1/messages?beta=true"), "/v1/messages");
  EXPECT_EQ(path_of_target("/v1/models/?limit=1000"), "/v1/models");
  EXPECT_EQ(path_of_target("http://localhost:11435/health?x"), "/health");
  EXPECT_EQ(path_of_target("http://localhost"), "/");
  EXPECT_EQ(path_of_target("/a?u=http://b/c"), "/a");
  EXPECT_EQ(path_of_target("*"), "*");
}

TEST(HttpMessage, PercentDecoding) {
  EXPECT_EQ(percent_decode("hf.co%2Forg%2frepo:Q4"), "hf.co/org/repo:Q4");
  EXPECT_EQ(percent_decode("a%"), "a%");
  EXPECT_EQ(percent_decode("a%4"), "a%4");
  EXPECT_EQ(percent_decode("%zz%41"), "%zzA");
}

TEST(HttpMessage, HeadersAreFoundWhateverTheirCase) {
  Request request;
  request.headers = {{"Content-Encoding", "gzip"}, {"X", "1"}, {"x", "2"}};
  EXPECT_EQ(request.header("content-encoding"), "gzip");
  EXPECT_EQ(request.header("x"), "1");
  EXPECT_EQ(request.header("y"), "");
}

TEST(HttpMessage, AnEmptyChunkIsNotWritten) {
  EXPECT_EQ(serialize_chunk(""), "");
  EXPECT_EQ(serialize_chunk("hello, world, hi"), "10\r\nhello, world, hi\r\n");
}

}  // namespace
}  // namespace tempo9::server::http
