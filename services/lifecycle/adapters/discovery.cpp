#include "services/lifecycle/adapters/discovery.hpp"

#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/resources.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr std::string_view kGroupVersion = "nodus.dev/v1";
constexpr std::string_view kAggregated = "APIGroupDiscoveryList";

template <class Names>
json::array texts(const Names& names) {
  json::array out;
  for (const auto& name : names) out.emplace_back(name);
  return out;
}

bool is_core(const Resource& resource) {
  return resource.api_version == "v1";
}

struct Subresource {
  std::string_view name;
  std::string_view kind;
  std::initializer_list<std::string_view> verbs;
};
constexpr Subresource kSubresources[] = {
    {"sandboxes/exec", "ExecOptions", {"create", "get"}},
    {"sandboxes/files", "FileContent", {"delete", "get", "update"}},
    {"processes/attach", "AttachOptions", {"get"}},
    {"processes/log", "ProcessLog", {"get"}},
    {"processes/signal", "SignalOptions", {"create"}},
    {"processes/cancel", "CancelOptions", {"create"}},
};

json::object group_without_type() {
  const json::object version{{"groupVersion", kGroupVersion}, {"version", "v1"}};
  return {{"name", "nodus.dev"}, {"versions", {version}}, {"preferredVersion", version}};
}

// Everything in one answer, as kubectl asks for since 1.26.
json::object aggregated(bool core) {
  json::array found;
  for (const auto* resource : resources()) {
    if (is_core(*resource) != core) continue;
    found.push_back(
        {{"resource", resource->plural},
         {"responseKind", {{"group", core ? "" : "nodus.dev"}, {"version", "v1"}, {"kind", resource->kind}}},
         {"scope", "Namespaced"},
         {"singularResource", resource->singular},
         {"verbs", texts(resource->verbs)},
         {"shortNames", texts(resource->short_names)}});
  }
  const json::object version{{"version", "v1"}, {"resources", std::move(found)}, {"freshness", "Current"}};
  return {{"kind", kAggregated},
          {"apiVersion", "apidiscovery.k8s.io/v2"},
          {"metadata", json::object()},
          {"items", {{{"metadata", {{"name", core ? "" : "nodus.dev"}}}, {"versions", {version}}}}}};
}

bool asks_for_aggregated(const http::Request& request) {
  const auto accept = request.headers.get("Accept").value_or("");
  return accept.find("as=APIGroupDiscoveryList") != std::string::npos &&
         (accept.find("v=v2;") != std::string::npos || accept.find("v=v2,") != std::string::npos);
}

http::Response answer(const json::object& body) {
  return http::json(200, json::serialize(body));
}

http::Response answer_aggregated(bool core) {
  auto response = answer(aggregated(core));
  response.headers.set("Content-Type",
                       "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  return response;
}

Result<http::Response> apis(Api&, const http::Identity&, const http::Request& request) {
  return asks_for_aggregated(request) ? answer_aggregated(false) : answer(api_groups());
}
Result<http::Response> api_versions(Api&, const http::Identity&, const http::Request& request) {
  if (asks_for_aggregated(request)) return answer_aggregated(true);
  return answer(
      {{"kind", "APIVersions"}, {"versions", {"v1"}}, {"serverAddressByClientCIDRs", json::array()}});
}
Result<http::Response> group(Api&, const http::Identity&, const http::Request&) {
  return answer(api_group());
}
Result<http::Response> group_resources(Api&, const http::Identity&, const http::Request&) {
  return answer(api_resources(false));
}
Result<http::Response> core_resources(Api&, const http::Identity&, const http::Request&) {
  return answer(api_resources(true));
}
// The version of the conventions that this API keeps to, in the form of Kubernetes' own.
Result<http::Response> version(Api&, const http::Identity&, const http::Request&) {
  return answer({{"major", "1"},
                 {"minor", "31"},
                 {"gitVersion", "v1.31.0+nodus"},
                 {"gitCommit", ""},
                 {"gitTreeState", ""},
                 {"buildDate", ""},
                 {"goVersion", ""},
                 {"compiler", "clang"},
                 {"platform", "linux/amd64"}});
}
Result<http::Response> openapi(Api&, const http::Identity&, const http::Request&) {
  return answer(openapi_index());
}
Result<http::Response> openapi_group(Api&, const http::Identity&, const http::Request&) {
  static const std::string text = json::serialize(openapi_document(false, public_routes()));
  return http::json(200, text);
}
Result<http::Response> openapi_core(Api&, const http::Identity&, const http::Request&) {
  static const std::string text = json::serialize(openapi_document(true, public_routes()));
  return http::json(200, text);
}

// Kubernetes' clients ask for all namespaces at once; here every question is of one project.
Result<http::Response> of_all_projects(Api&, const http::Identity&, const http::Request& request) {
  return fail(Code::kForbidden, "Forbidden",
              "Objects are read one project at a time: ask below /apis/nodus.dev/v1/namespaces/<project>/" +
                  request.segments.back() + " (kubectl: -n <project> instead of -A).");
}

}  // namespace

json::object api_groups() {
  return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", {group_without_type()}}};
}

json::object api_group() {
  json::object out = group_without_type();
  out["kind"] = "APIGroup";
  out["apiVersion"] = "v1";
  return out;
}

json::object api_resources(bool core) {
  json::array found;
  for (const auto* resource : resources()) {
    if (core != is_core(*resource)) continue;
    found.push_back({{"name", resource->plural},
                     {"singularName", resource->singular},
                     {"namespaced", true},
                     {"kind", resource->kind},
                     {"verbs", texts(resource->verbs)},
                     {"shortNames", texts(resource->short_names)}});
  }
  if (!core)
    for (const auto& sub : kSubresources)
      found.push_back({{"name", sub.name},
                       {"singularName", ""},
                       {"namespaced", true},
                       {"kind", sub.kind},
                       {"verbs", texts(sub.verbs)}});
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", core ? "v1" : kGroupVersion},
          {"resources", std::move(found)}};
}

std::vector<PublicRoute> discovery_routes() {
  std::vector<PublicRoute> table;
  const auto add = [&](std::string pattern, std::string name, Right right, PlainHandler handler) {
    table.push_back({.method = "GET",
                     .pattern = std::move(pattern),
                     .name = std::move(name),
                     .right = right,
                     .effect = Effect::kReads,
                     .plain = handler});
  };
  const auto open = [&](std::string pattern, std::string name, PlainHandler handler) {
    add(std::move(pattern), std::move(name), Right::kNobody, handler);
  };
  open("/version", "version.get", version);
  open("/api", "discovery.core", api_versions);
  open("/api/v1", "discovery.core.resources", core_resources);
  open("/apis", "discovery.groups", apis);
  open("/apis/nodus.dev", "discovery.group", group);
  open("/apis/nodus.dev/v1", "discovery.resources", group_resources);
  open("/openapi/v3", "openapi.index", openapi);
  open("/openapi/v3/apis/nodus.dev/v1", "openapi.group", openapi_group);
  open("/openapi/v3/api/v1", "openapi.core", openapi_core);
  for (const auto* resource : resources())
    add((is_core(*resource) ? "/api/v1/" : "/apis/nodus.dev/v1/") + std::string(resource->plural),
        std::string(resource->plural) + ".list.all", Right::kRead, of_all_projects);
  return table;
}

}  // namespace nodus::lifecycle
