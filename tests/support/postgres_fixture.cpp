#include "tests/support/postgres_fixture.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "libs/base/check.hpp"

namespace nodus::test {
namespace {

namespace fs = std::filesystem;
using Argv = std::vector<std::string>;

std::string find_bin() {
  fs::path best;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql"))
    if (fs::exists(entry.path() / "bin/initdb") && entry.path() > best) best = entry.path();
  CHECK(!best.empty(), "PostgreSQL's server is not installed (apt-get install postgresql)");
  return best / "bin";
}

// The child is user postgres when we are root (the server refuses root), and dies with its parent's thread.
pid_t start(const Argv& argv, const std::string& output, bool as_postgres) {
  std::vector<char*> raw;
  for (const auto& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  passwd* user = as_postgres && geteuid() == 0 ? getpwnam("postgres") : nullptr;
  CHECK(!as_postgres || geteuid() != 0 || user != nullptr, "there is no user postgres");
  pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid > 0) return pid;
  int out = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(126);
  if (user != nullptr &&
      (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
    _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  execv(raw[0], raw.data());
  _exit(127);
}

bool run(const Argv& argv, const std::string& output, bool as_postgres = false) {
  pid_t pid = start(argv, output, as_postgres);
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool durable = false;

class Cluster {
 public:
  Cluster() : bin_(find_bin()) {
    std::string pattern = "/tmp/nodus-pg-XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr, "mkdtemp {}", pattern);
    dir_ = pattern;
    if (geteuid() == 0) {
      passwd* user = getpwnam("postgres");
      CHECK(user != nullptr && chown(dir_.c_str(), user->pw_uid, user->pw_gid) == 0, "chown {}", dir_);
    }
    CHECK(run({bin_ + "/initdb", "-D", dir_ + "/data", "-A", "trust", "-U", "postgres", "-E", "UTF8",
               "--no-sync", "--no-instructions", "--locale=C.UTF-8"},
              log(), true),
          "initdb failed, see {}", log());
    boot();
  }
  ~Cluster() {
    end(SIGINT);
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
    fs::remove(log(), ignored);
  }

  void crash_and_restart() {
    end(SIGQUIT);
    boot();
  }

  std::string database(const Argv& files, const std::string& schema) {
    std::lock_guard lock(mutex_);
    std::string key = schema;
    for (const auto& file : files) key += ":" + file;
    auto& name = templates_[key];
    if (name.empty()) {
      name = fmt::format("template_{}", templates_.size());
      sql("postgres", fmt::format("CREATE DATABASE {}", name));
      apply(url(name), files, schema);
    }
    std::string fresh = fmt::format("db_{}", ++databases_);
    sql("postgres", fmt::format("CREATE DATABASE {} TEMPLATE {}", fresh, name));
    return url(fresh);
  }

  void apply(const std::string& to, const Argv& files, const std::string& schema) {
    CHECK(psql(to, {"-c", fmt::format("CREATE SCHEMA {}", schema)}), "cannot make schema {}, see {}", schema,
          log());
    for (const auto& file : files)
      CHECK(psql(to + " options='-c search_path=" + schema + "'",
                 {"-1", "-f", fs::path(NODUS_SOURCE_DIR) / file}),
            "{} failed, see {}", file, log());
  }

 private:
  std::string log() const { return dir_ + ".log"; }
  std::string url(const std::string& database) const {
    return fmt::format("host={} port=5432 user=postgres dbname={}", dir_, database);
  }
  bool psql(const std::string& to, const Argv& args) {
    Argv argv = {bin_ + "/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", to};
    argv.insert(argv.end(), args.begin(), args.end());
    return run(argv, log());
  }
  void sql(const std::string& database, const std::string& statement) {
    CHECK(psql(url(database), {"-c", statement}), "{} failed, see {}", statement, log());
  }

  void boot() {
    std::string flush = durable ? "on" : "off";
    pid_ = start({bin_ + "/postgres", "-D", dir_ + "/data", "-k", dir_, "-c", "listen_addresses=", "-c",
                  "fsync=" + flush, "-c", "full_page_writes=" + flush, "-c", "max_connections=200", "-c",
                  "shared_buffers=64MB"},
                 log(), true);
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!run({bin_ + "/pg_isready", "-q", "-h", dir_, "-p", "5432"}, log())) {
      CHECK(waitpid(pid_, nullptr, WNOHANG) == 0, "PostgreSQL ended at once, see {}", log());
      CHECK(std::chrono::steady_clock::now() < deadline, "PostgreSQL is not ready, see {}", log());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  void end(int signal) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
  }

  std::string bin_;
  std::string dir_;
  pid_t pid_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::string> templates_;
  int databases_ = 0;
};

Cluster& cluster() {
  static Cluster instance;
  return instance;
}

}  // namespace

std::string fresh_database(const std::vector<std::string>& sql_files, const std::string& schema) {
  return cluster().database(sql_files, schema);
}

std::vector<std::string> log_files(const std::vector<std::string>& more) {
  std::vector<std::string> files{"libs/eventlog/sql/event_log.sql", "libs/eventlog/sql/heads_by_place.sql"};
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

std::vector<std::string> migrations_of(const std::string& service) {
  std::vector<std::string> files;
  const fs::path folder = fs::path("migrations") / service;
  std::ifstream plan(fs::path(NODUS_SOURCE_DIR) / folder / "sqitch.plan");
  for (std::string line; std::getline(plan, line);) {
    const std::string step = line.substr(0, line.find(' '));
    if (step.empty() || step[0] == '%') continue;
    const fs::path deploy = folder / "deploy" / (step + ".sql");
    std::ifstream script(fs::path(NODUS_SOURCE_DIR) / deploy);
    std::vector<std::string> included;  // a step of files that all services share is nothing else
    for (std::string part; std::getline(script, part);)
      if (part.starts_with("\\ir "))
        included.push_back((deploy.parent_path() / part.substr(4)).lexically_normal());
    if (included.empty()) included.push_back(deploy);
    files.insert(files.end(), included.begin(), included.end());
  }
  CHECK(files.size() > 2, "{} has no plan", folder.string());
  return files;
}

void add_schema(const std::string& url, const std::vector<std::string>& sql_files,
                const std::string& schema) {
  cluster().apply(url, sql_files, schema);
}

void use_durable_postgres() {
  durable = true;
}

void crash_and_restart_postgres() {
  cluster().crash_and_restart();
}

}  // namespace nodus::test
