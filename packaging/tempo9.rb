# Homebrew formula. Until there are releases it builds a checkout:
#   brew install --HEAD --formula packaging/tempo9.rb
# Not tried on a Mac yet: packaging/README.md.
class Tempo9 < Formula
  desc "Local LLM server for GGUF models"
  homepage "https://example.invalid/tempo9"
  license "Apache-2.0"
  head "file://#{File.expand_path("..", __dir__)}", using: :git

  depends_on "boost" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "fmt"
  depends_on "spdlog"
  depends_on "utf8proc"
  depends_on "xxhash"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DTEMPO9_TESTS=OFF", "-DTEMPO9_WERROR=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  service do
    run [opt_bin/"tempo9", "--gguf", var/"tempo9/model.gguf"]
    keep_alive successful_exit: false
    log_path var/"log/tempo9.log"
    error_log_path var/"log/tempo9.log"
  end

  test do
    assert_match "tempo9 #{version}", shell_output("#{bin}/tempo9 --version") unless head?
    assert_match "no model given", shell_output("#{bin}/tempo9 2>&1", 2)
    assert_match "This machine", shell_output("#{bin}/tempo9 doctor --port 0")
  end
end
