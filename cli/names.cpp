#include "cli/names.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace nodus::cli {

namespace {

constexpr std::array<std::string_view, 3> kSandbox{"sb", "sandbox", "sandboxes"};
constexpr std::array<std::string_view, 3> kProcess{"proc", "process", "processes"};
constexpr std::array<std::string_view, 3> kEvent{"ev", "event", "events"};
constexpr std::array<std::string_view, 3> kBudget{"bud", "budget", "budgets"};

std::unexpected<Error> local(std::string message) {
  return fail(Code::kInvalid, "LocalFault", std::move(message));
}

// Only what keeps a URL in one piece: the server knows the rules of names.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 &&
         std::ranges::all_of(text,
                             [](char c) {
                               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                      (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
                             }) &&
         text != "." && text != "..";
}

bool among(const std::array<std::string_view, 3>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<Kind> kind_of(std::string_view word) {
  if (among(kSandbox, word)) return Kind::kSandbox;
  if (among(kProcess, word)) return Kind::kProcess;
  if (among(kEvent, word)) return Kind::kEvent;
  if (among(kBudget, word)) return Kind::kBudget;
  return std::nullopt;
}

Result<Target> target_of(const std::string& word, std::optional<Kind> kind) {
  Target target{kind.value_or(Kind::kSandbox), word};
  if (const size_t slash = word.find('/'); slash != std::string::npos) {
    const auto named = kind_of(std::string_view(word).substr(0, slash));
    if (!named) return local("\"" + word + "\" is not an object such as sb/hello or process/sb-hello-1.");
    target = {*named, word.substr(slash + 1)};
  }
  if (!is_name(target.name)) return local("\"" + word + "\" is not a name.");
  return target;
}

}  // namespace

Result<std::string> sandbox_name(const std::string& text) {
  std::string name = text;
  if (const size_t slash = text.find('/'); slash != std::string::npos) {
    if (!among(kSandbox, std::string_view(text).substr(0, slash)))
      return local("\"" + text + "\" is not a Sandbox such as sb/hello.");
    name = text.substr(slash + 1);
  }
  if (!is_name(name)) return local("\"" + text + "\" is not the name of a Sandbox.");
  return name;
}

Result<std::vector<std::string>> sandbox_names(const std::vector<std::string>& texts) {
  auto targets = targets_of(texts);
  if (!targets) return std::unexpected(std::move(targets.error()));
  std::vector<std::string> names;
  for (auto& target : *targets) {
    if (target.kind != Kind::kSandbox)
      return local("\"" + target.text() + "\" is not a Sandbox such as sb/hello.");
    names.push_back(std::move(target.name));
  }
  return names;
}

std::optional<RemotePath> remote_path(const std::string& text) {
  const size_t slash = text.find('/');
  const size_t colon = text.find(':');
  if (slash == std::string::npos || colon == std::string::npos || colon < slash) return std::nullopt;
  if (!among(kSandbox, std::string_view(text).substr(0, slash))) return std::nullopt;
  return RemotePath{text.substr(slash + 1, colon - slash - 1), text.substr(colon + 1)};
}

std::string singular(Kind kind) {
  return std::string(kind == Kind::kSandbox   ? "sandbox"
                     : kind == Kind::kProcess ? "process"
                     : kind == Kind::kEvent   ? "event"
                                              : "budget");
}
std::string plural(Kind kind) {
  return std::string(kind == Kind::kSandbox   ? "sandboxes"
                     : kind == Kind::kProcess ? "processes"
                     : kind == Kind::kEvent   ? "events"
                                              : "budgets");
}

Result<Selection> selection(const std::vector<std::string>& words) {
  Selection out;
  std::optional<Kind> kind;
  size_t first = 0;
  if (!words.empty() && !words.front().contains('/')) {
    kind = kind_of(words.front());
    if (!kind)
      return local(
          "\"" + words.front() +
          "\" is not a kind of object: sandboxes (sb), processes (proc), events (ev) or budgets; one is "
          "named as in sb/hello.");
    out.kind = *kind;
    first = 1;
  }
  for (size_t i = first; i < words.size(); ++i) {
    auto target = target_of(words[i], kind);
    if (!target) return std::unexpected(std::move(target.error()));
    out.targets.push_back(std::move(*target));
  }
  return out;
}

Result<std::vector<Target>> targets_of(const std::vector<std::string>& words) {
  std::vector<Target> out;
  std::optional<Kind> kind;
  // "delete sandbox a b" as well as "delete sb/a sb/b" and "delete a b".
  const bool led = words.size() > 1 && !words.front().contains('/') && kind_of(words.front());
  if (led) kind = kind_of(words.front());
  for (size_t i = led ? 1 : 0; i < words.size(); ++i) {
    auto target = target_of(words[i], kind);
    if (!target) return std::unexpected(std::move(target.error()));
    out.push_back(std::move(*target));
  }
  return out;
}

}  // namespace nodus::cli
