#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rossby/io/files.hpp"
#include "rossby/io/run_directory.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;

TEST(AtomicWrite, ReplacesAndLeavesNothingElse) {
  const TemporaryDirectory folder;
  atomic_write(folder / "a.txt", "one");
  atomic_write(folder / "a.txt", "");
  EXPECT_EQ(read_text(folder / "a.txt"), "");
  const std::string large(300000, 'x');
  atomic_write(folder / "a.txt", large);
  EXPECT_EQ(read_text(folder / "a.txt"), large);
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_HAS(user_message([&] { atomic_write(folder / "no/a.txt", "x"); }),
             "no/a.txt: cannot write this file: No such");
  std::filesystem::create_directory(folder / "d");
  EXPECT_HAS(user_message([&] { atomic_write(folder / "d", "x"); }), "cannot write this file");
  EXPECT_EQ(folder.entries(), 2);
  EXPECT_HAS(user_message([&] { (void)read_text(folder / "none"); }), "none: cannot read this file");
  EXPECT_HAS(user_message([&] { (void)read_text("/dev/zero", 1000); }),
             "/dev/zero: the file is longer than 1000 bytes");
}

TEST(AtomicWrite, FullDiskKeepsTheOldFile) {
  const TemporaryDirectory folder;
  atomic_write(folder / "a.txt", "old");
  const RunDirectory run = RunDirectory::create(folder / "run");
  run.append_metrics("{\"epoch\": 1}");
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    int failures = 0;
    for (int what = 0; what < 2; ++what) try {
        if (what == 0) atomic_write(folder / "a.txt", std::string(5000, 'x'));
        if (what == 1) run.append_metrics(std::string(5000, 'x'));
      } catch (const UserError&) {
        ++failures;
      }
    _exit(failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(read_text(folder / "a.txt"), "old");
  EXPECT_EQ(read_text(run.metrics_file()), "{\"epoch\": 1}\n");
  EXPECT_EQ(folder.entries(), 2);
}

TEST(RunDirectory, IsMadeWithParentsAndLockedOnce) {
  const TemporaryDirectory folder;
  const std::string path = folder / "deep/run";
  {
    const RunDirectory run = RunDirectory::create(path);
    EXPECT_FALSE(run.has_run());
    run.make_checkpoints();
    run.make_checkpoints();
    EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
    const std::string message = user_message([&] { RunDirectory::create(path); });
    EXPECT_HAS(message, "in use by process " + std::to_string(getpid()) + " on ");
  }
  RunDirectory again = RunDirectory::create(path);
  const RunDirectory moved = std::move(again);
  EXPECT_HAS(user_message([&] { RunDirectory::create(path); }), "in use");
}

TEST(RunDirectory, AKilledProcessDoesNotBlock) {
  const TemporaryDirectory folder;
  const std::string path = folder / "run";
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunDirectory run = RunDirectory::create(path);
    const auto written = ::write(channel[1], "x", 1);
    pause();
    _exit(static_cast<int>(written));
  }
  char c = 0;
  ASSERT_EQ(::read(channel[0], &c, 1), 1);
  EXPECT_HAS(user_message([&] { RunDirectory::create(path); }), "in use by process " + std::to_string(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunDirectory::create(path));
}

TEST(RunDirectory, OpenNeedsARun) {
  const TemporaryDirectory folder;
  EXPECT_HAS(user_message([&] { RunDirectory::open(folder / "none"); }), "no such run directory");
  EXPECT_HAS(user_message([&] { RunDirectory::open(folder.path()); }), "no config.toml");
  atomic_write(folder / "config.toml", "");
  EXPECT_TRUE(RunDirectory::open(folder.path()).has_run());
  EXPECT_HAS(user_message([&] { RunDirectory::create(folder / "config.toml"); }),
             "config.toml: cannot make this run directory");
  EXPECT_HAS(user_message([&] { RunDirectory::create(""); }), "--run");
}

TEST(RunDirectory, MetricsAreWholeLines) {
  const TemporaryDirectory folder;
  const RunDirectory run = RunDirectory::create(folder / "run");
  run.append_metrics("{\"epoch\": 1}");
  run.append_metrics("{\"epoch\": 2}");
  EXPECT_EQ(read_text(run.metrics_file()), "{\"epoch\": 1}\n{\"epoch\": 2}\n");
  std::ofstream(run.metrics_file(), std::ios::app) << "{\"epo";  // the line that a killed run leaves
  run.append_metrics("{\"epoch\": 3}");
  EXPECT_EQ(read_text(run.metrics_file()), "{\"epoch\": 1}\n{\"epoch\": 2}\n{\"epoch\": 3}\n");
  EXPECT_THROW(run.append_metrics("two\nlines"), BugError);
}

}  // namespace
}  // namespace rossby
