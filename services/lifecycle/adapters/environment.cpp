#include "services/lifecycle/adapters/environment.hpp"

#include <boost/json.hpp>

#include "libs/base/random.hpp"
#include "libs/base/seal.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr size_t kIdDigits = 8;

std::string from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(digit(text[i]) << 4 | digit(text[i + 1]));
  return out;
}

// A project's digests say nothing of another's, and each names its variable: equal values look different.
std::string digest_with(const std::string& key, const ProjectId& project, const std::string& name,
                        const std::string& value) {
  return hmac_sha256_hex(key, project.str() + '\0' + name + '\0' + value);
}

}  // namespace

Result<SealedEnvironment> SealedEnvironment::make(const std::string& keys) {
  SealedEnvironment out;
  for (size_t at = 0; at <= keys.size();) {
    const size_t comma = std::min(keys.find(',', at), keys.size());
    const std::string text = keys.substr(at, comma - at);
    if (text.size() != kSealKeyBytes * 2 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      return fail(Code::kInvalid, "ConfigurationInvalid",
                  "NODUS_ENV_KEY: 64 lowercase hex digits (openssl rand -hex 32); older keys after commas.");
    const std::string key = from_hex(text);
    // The key itself is used for nothing: each use has one derived from it.
    const auto derived = [&](std::string_view use) { return from_hex(hmac_sha256_hex(key, use)); };
    out.keys_.push_back(
        {hmac_sha256_hex(key, "id").substr(0, kIdDigits), derived("seal"), derived("digest")});
    at = comma + 1;
  }
  return out;
}

std::string SealedEnvironment::digest(const ProjectId& project, const std::string& name,
                                      const std::string& value) {
  const Key& key = keys_.front();
  return key.id + ":" + digest_with(key.digesting, project, name, value);
}

bool SealedEnvironment::same(const std::string& digest, const ProjectId& project, const std::string& name,
                             const std::string& value) {
  for (const Key& key : keys_)
    if (digest.starts_with(key.id + ":"))
      return equal_in_constant_time(digest.substr(kIdDigits + 1),
                                    digest_with(key.digesting, project, name, value));
  return false;
}

std::string SealedEnvironment::input_hash(const std::string& body) {
  return hmac_sha256_hex(keys_.back().digesting,
                         body);  // the oldest: a repeat over a change of keys is still one
}

std::string SealedEnvironment::seal(const SandboxUid& uid, const std::map<std::string, std::string>& values) {
  json::object object;
  for (const auto& [name, value] : values) object[name] = value;
  return nodus::seal(keys_.front().sealing, "env/" + uid.str(), json::serialize(object));
}

Result<std::map<std::string, std::string>> SealedEnvironment::open(const SandboxUid& uid,
                                                                   const std::string& sealed) {
  std::map<std::string, std::string> values;
  if (sealed.empty()) return values;
  Result<std::string> plain = fail(Code::kInternal, "Unsealable", "There is no key.");
  for (const Key& key : keys_) {
    plain = unseal(key.sealing, "env/" + uid.str(), sealed);
    if (plain) break;
  }
  if (!plain) return std::unexpected(std::move(plain.error()));
  boost::system::error_code fault;
  const auto object = json::parse(*plain, fault);
  if (fault || !object.is_object())
    return fail(Code::kInternal, "Unsealable", "The variables cannot be read.");
  for (const auto& [name, value] : object.get_object()) values.emplace(name, value.get_string());
  return values;
}

}  // namespace nodus::lifecycle
