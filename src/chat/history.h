// Conversations as clients send them, made into what a template can take, without loss of text. Spec tool-calling 10.3,
// 10.4. What the template takes already is not touched, so that prompts of growing conversations keep their beginnings.
#pragma once

#include "chat/message.h"
#include "chat/template_traits.h"

namespace tempo9::chat {

// Leading system messages become one; later ones go into the message before them, marked as a reminder, unless the
// template takes them. Results follow their calls in the calls' order, one for each. Calls that the template cannot
// show, one or several in a message, become messages of their own or text. The same role twice becomes one message
// where turns must alternate.
Conversation adapt_conversation(Conversation conversation, const TemplateTraits& traits);

}  // namespace tempo9::chat
