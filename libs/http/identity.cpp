#include "libs/http/identity.hpp"

#include <boost/json.hpp>

#include "libs/base/random.hpp"

namespace nodus::http {

namespace json = boost::json;

namespace {

constexpr Micros kLife = Seconds(30);
constexpr Micros kClockDifference = Seconds(5);  // a signer whose clock is ahead
constexpr size_t kMaxHeader = 4096;

std::unexpected<Error> refused() {
  return fail(Code::kUnauthenticated, "IdentityRefused",
              "The forwarded identity is missing, forged or too old.");
}

}  // namespace

std::string sign_identity(const Identity& identity, std::string_view secret, Instant now) {
  const json::object claims{{"org", identity.org.str()},
                            {"project", identity.project.str()},
                            {"key", identity.key_id},
                            {"role", identity.role},
                            {"at", to_micros(now)}};
  const std::string payload = to_base64(json::serialize(claims));
  return payload + "." + hmac_sha256_hex(secret, payload);
}

Result<Identity> verify_identity(std::string_view header, std::string_view secret, Instant now) {
  const size_t dot = header.find('.');
  if (secret.empty() || header.size() > kMaxHeader || dot == std::string_view::npos) return refused();
  const std::string_view payload = header.substr(0, dot);
  if (!equal_in_constant_time(header.substr(dot + 1), hmac_sha256_hex(secret, payload))) return refused();
  std::string text;
  if (!from_base64(payload, text)) return refused();
  boost::system::error_code fault;
  const json::value claims = json::parse(text, fault);
  if (fault || !claims.is_object()) return refused();
  const auto member = [&](std::string_view name) {
    const json::value* value = claims.get_object().if_contains(name);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
  };
  const json::value* at = claims.get_object().if_contains("at");
  if (!at || !at->is_int64()) return refused();
  const Instant signed_at = from_micros(at->get_int64());
  if (now > signed_at + kLife || now + kClockDifference < signed_at) return refused();
  Identity identity{OrgId(member("org")), ProjectId(member("project")), member("key"), member("role")};
  if (identity.org.empty() || identity.role.empty()) return refused();
  return identity;
}

std::string node_token(std::string_view node_secret, const MachineId& machine) {
  return machine.str() + "." + hmac_sha256_hex(node_secret, "node/" + machine.str());
}

Result<MachineId> verify_node_token(std::string_view authorization, std::string_view node_secret) {
  constexpr std::string_view kBearer = "Bearer ";
  constexpr size_t kLongest = 256;
  const size_t dot = authorization.rfind('.');
  if (authorization.starts_with(kBearer) && authorization.size() <= kLongest &&
      dot != std::string_view::npos && dot > kBearer.size()) {
    const MachineId machine(std::string(authorization.substr(kBearer.size(), dot - kBearer.size())));
    if (equal_in_constant_time(authorization.substr(kBearer.size()), node_token(node_secret, machine)))
      return machine;
  }
  return fail(Code::kUnauthenticated, "Unauthorized", "The token is not that of a machine.");
}

}  // namespace nodus::http
