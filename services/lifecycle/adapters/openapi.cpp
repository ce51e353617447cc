// OpenAPI v3, written from the table of fields, the kinds and the route table.
#include <algorithm>

#include "services/lifecycle/adapters/discovery.hpp"
#include "services/lifecycle/adapters/fields.hpp"
#include "services/lifecycle/adapters/resources.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

using T = Field::Type;

json::object type_of(const Field& field) {
  switch (field.type) {
    case T::kObject:
      return {{"type", "object"}};
    case T::kInteger:
      return {{"type", "integer"}, {"format", "int64"}};
    case T::kBoolean:
      return {{"type", "boolean"}};
    case T::kNumbers:
      return {{"type", "array"}, {"items", {{"type", "integer"}}}};
    case T::kObjects:
      return {{"type", "array"}, {"items", {{"type", "object"}}}};
    case T::kStrings:
      return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
    case T::kList:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case T::kConditions: {
      json::object members;
      for (const std::string_view name : {"type", "status", "reason", "message", "lastTransitionTime"})
        members[name] = {{"type", "string"}};
      return {{"type", "array"}, {"items", {{"type", "object"}, {"properties", std::move(members)}}}};
    }
    case T::kInstant:
      return {{"type", "string"}, {"format", "date-time"}};
    case T::kQuantity:
      return {{"type", "string"}, {"x-kubernetes-int-or-string", true}};
    case T::kString:
      break;
  }
  return {{"type", "string"}};
}

json::object schema_of(const Field& field) {
  json::object out = type_of(field);
  out["description"] = field.description;
  if (!field.fallback.empty()) out["default"] = field.fallback;
  if (field.ours) out["readOnly"] = true;
  if (field.values.empty()) return out;
  json::array values;
  for (std::string_view rest = field.values;;) {
    const size_t bar = rest.find('|');
    values.emplace_back(rest.substr(0, bar));
    if (bar == std::string_view::npos) break;
    rest.remove_prefix(bar + 1);
  }
  out["enum"] = std::move(values);
  return out;
}

json::object object_schema(std::span<const Field> fields, std::string_view kind) {
  json::object root{{"type", "object"}};
  for (const auto& field : fields) {
    json::object* at = &root;
    std::string_view path = field.path;
    for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
      at = &at->at("properties").as_object().at(path.substr(0, dot)).as_object();
      path.remove_prefix(dot + 1);
    }
    if (!at->contains("properties")) (*at)["properties"] = json::object();
    at->at("properties").as_object()[path] = schema_of(field);
    if (!field.required) continue;
    if (!at->contains("required")) (*at)["required"] = json::array();
    at->at("required").as_array().emplace_back(path);
  }
  root["description"] = kind;
  return root;
}

json::object reference(std::string_view name) {
  return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

json::object kind_of(const Resource& resource, std::string_view suffix = "") {
  const bool core = resource.api_version == "v1";
  return {{"group", core ? "" : "nodus.dev"},
          {"kind", std::string(resource.kind) + std::string(suffix)},
          {"version", "v1"}};
}

// Of a schema it is a list.
json::array kinds_of(const Resource& resource, std::string_view suffix = "") {
  json::array out;
  out.emplace_back(kind_of(resource, suffix));
  return out;
}

void add_schemas(json::object& schemas, const Resource& resource, std::span<const Field> fields) {
  const std::string name(resource.kind);
  json::object schema = object_schema(fields, name);
  schema["x-kubernetes-group-version-kind"] = kinds_of(resource);
  schemas[name] = std::move(schema);
  json::object properties{{"apiVersion", {{"type", "string"}}},
                          {"kind", {{"type", "string"}}},
                          {"metadata", reference("ListMeta")},
                          {"items", {{"type", "array"}, {"items", reference(name)}}}};
  schemas[name + "List"] = {{"type", "object"},
                            {"required", {"items"}},
                            {"properties", std::move(properties)},
                            {"x-kubernetes-group-version-kind", kinds_of(resource, "List")}};
}

json::object shared_schemas() {
  const json::object text{{"type", "string"}};
  const json::object number{{"type", "integer"}};
  json::object cause{{"type", "object"},
                     {"properties", {{"field", text}, {"reason", text}, {"message", text}}}};
  json::object details{{"type", "object"},
                       {"properties",
                        {{"causes", {{"type", "array"}, {"items", std::move(cause)}}},
                         {"retryAfterSeconds", number},
                         {"docs", text}}}};
  return {{"ListMeta", {{"type", "object"}, {"properties", {{"resourceVersion", text}, {"continue", text}}}}},
          {"Status",
           {{"type", "object"},
            {"properties",
             {{"kind", text},
              {"apiVersion", text},
              {"status", text},
              {"message", text},
              {"reason", text},
              {"code", number},
              {"details", std::move(details)}}}}}};
}

// Kubernetes' clients find a resource's path by the parameter's name there.
std::string documented_path(std::string pattern) {
  constexpr std::string_view kOurs = "{project}";
  if (const size_t at = pattern.find(kOurs); at != std::string::npos)
    pattern.replace(at, kOurs.size(), "{namespace}");
  return pattern;
}

json::array parameters_of(const PublicRoute& route, bool listed) {
  json::array out;
  const auto add = [&](std::string_view name, std::string_view in, std::string_view type) {
    out.push_back({{"name", name}, {"in", in}, {"required", in == "path"}, {"schema", {{"type", type}}}});
  };
  const std::string path = documented_path(route.pattern);
  for (std::string_view rest = path; rest.find('{') != std::string_view::npos;) {
    const size_t from = rest.find('{');
    const size_t to = rest.find('}');
    add(rest.substr(from + 1, to - from - 1), "path", "string");
    rest.remove_prefix(to + 1);
  }
  if (route.name.ends_with(".list") && listed) {
    for (const std::string_view name :
         {"labelSelector", "fieldSelector", "continue", "resourceVersion", "resourceVersionMatch"})
      add(name, "query", "string");
    for (const std::string_view name : {"limit", "timeoutSeconds"}) add(name, "query", "integer");
    for (const std::string_view name : {"watch", "allowWatchBookmarks", "sendInitialEvents"})
      add(name, "query", "boolean");
  }
  const auto of_kind = [&](std::string_view verb) {
    return route.name == "sandboxes" + std::string(verb) || route.name == "budgets" + std::string(verb);
  };
  for (const std::string_view verb : {".create", ".patch", ".replace", ".delete"})
    if (of_kind(verb)) add("dryRun", "query", "string");
  // Unknown fields are always refused, so that whoever asks for it (Strict) need not look himself.
  for (const std::string_view verb : {".create", ".patch", ".replace"})
    if (of_kind(verb))
      for (const std::string_view name : {"fieldManager", "fieldValidation"}) add(name, "query", "string");
  return out;
}

json::object operation_of(const PublicRoute& route, const Resource* resource) {
  const size_t dot = route.name.find('.');
  const std::string verb = route.name.substr(dot + 1);
  const bool listed = verb == "list";
  std::string id = route.name;
  std::ranges::replace(id, '.', '_');
  json::object ok{{"description", "OK"}};
  const bool object =
      verb == "get" || verb == "create" || verb == "patch" || verb == "replace" || verb == "delete";
  if (resource && (listed || object))
    ok["content"] = {
        {"application/json", {{"schema", reference(std::string(resource->kind) + (listed ? "List" : ""))}}}};
  json::object refused{{"description", "Refused; details.docs names the page of the reason."},
                       {"content", {{"application/json", {{"schema", reference("Status")}}}}}};
  json::object out{{"operationId", std::move(id)},
                   {"parameters", parameters_of(route, listed)},
                   {"responses", {{"200", std::move(ok)}, {"default", std::move(refused)}}}};
  if (resource && (listed || object)) out["x-kubernetes-group-version-kind"] = kind_of(*resource);
  if (resource && (listed || object))
    out["x-kubernetes-action"] = verb == "create" ? "post" : verb == "replace" ? "put" : verb;
  if (verb == "create" || verb == "replace")
    out["requestBody"] = {
        {"content", {{"application/json", {{"schema", reference(resource ? resource->kind : "Sandbox")}}}}}};
  if (verb == "patch")
    out["requestBody"] = {
        {"content", {{"application/merge-patch+json", {{"schema", {{"type", "object"}}}}}}}};
  return out;
}

}  // namespace

json::object openapi_document(bool core, const std::vector<PublicRoute>& table) {
  json::object schemas = shared_schemas();
  if (!core) {
    add_schemas(schemas, sandbox_resource(), sandbox_fields());
    add_schemas(schemas, process_resource(), process_fields());
    add_schemas(schemas, budget_resource(), budget_fields());
  }
  add_schemas(schemas, event_resource(), event_fields());
  json::object paths;
  const std::string_view prefix = core ? "/api/v1/" : "/apis/nodus.dev/v1/";
  for (const auto& route : table) {
    if (!route.pattern.starts_with(prefix)) continue;
    const Resource* about = nullptr;
    for (const auto* resource : resources())
      if (route.name.starts_with(std::string(resource->plural) + ".")) about = resource;
    std::string method = route.method;
    std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
    const std::string path = documented_path(route.pattern);
    if (!paths.contains(path)) paths[path] = json::object();
    paths.at(path).as_object()[method] = operation_of(route, about);
  }
  return {{"openapi", "3.0.0"},
          {"info", {{"title", "Nodus Sandboxes"}, {"version", "v1"}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", std::move(schemas)},
            {"securitySchemes", {{"BearerToken", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
          {"security", {{{"BearerToken", json::array()}}}}};
}

json::object openapi_index() {
  const auto entry = [](std::string_view path) {
    return json::object{{"serverRelativeURL", "/openapi/v3/" + std::string(path)}};
  };
  return {{"paths", {{"apis/nodus.dev/v1", entry("apis/nodus.dev/v1")}, {"api/v1", entry("api/v1")}}}};
}

}  // namespace nodus::lifecycle
