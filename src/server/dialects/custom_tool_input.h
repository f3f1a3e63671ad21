// The text that a call of a custom tool hands over, taken out of the JSON arguments that the model writes for it:
// {"input": "…"}.
#pragma once

#include <string>
#include <string_view>

namespace tempo9::server {

// One per call. Whatever the cuts, the joined texts are the same.
class CustomToolInput {
 public:
  // The text that is certain with this piece of the arguments.
  std::string feed(std::string_view arguments);
  // No more arguments follow: the rest of the text. Arguments of another form than above give the only text in them, or
  // stand for themselves.
  std::string finish();

 private:
  enum class Phase : unsigned char {
    kHead,   // before the text: so far the arguments may have the form above
    kText,   // next_ is inside the string
    kDone,   // behind it
    kOther,  // the arguments have another form
  };

  void read_head();
  std::string read_text(bool is_last);

  Phase phase_ = Phase::kHead;
  std::string arguments_;
  size_t next_ = 0;  // of arguments_: what has not been decoded
};

}  // namespace tempo9::server
