#include "rossby/mpi/agree.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

Outcome Outcome::of_current_exception() {
  try {
    throw;
  } catch (const UserError& error) {
    return {Kind::user, error.what()};
  } catch (const std::bad_alloc&) {
    return {Kind::user, "out of memory. Use more ranks or a smaller problem"};
  } catch (const std::system_error& error) {
    return {Kind::user, error.what()};
  } catch (const std::exception& error) {
    return {Kind::bug, error.what()};
  } catch (...) {
    return {Kind::bug, "an exception of unknown type"};
  }
}

namespace {

/// Converts a rank of `comm` to the rank in the job, which users know.
int rank_in_job(const Communicator& comm, int rank) {
  MPI_Group part = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  MPI_Comm_group(comm.handle(), &part);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int found = MPI_UNDEFINED;
  MPI_Group_translate_ranks(part, 1, &rank, all, &found);
  MPI_Group_free(&part);
  MPI_Group_free(&all);
  return found == MPI_UNDEFINED ? rank : found;
}

}  // namespace

void agree_on(const Communicator& comm, const Outcome& outcome) {
  const bool failed = outcome.kind != Outcome::Kind::fine;
  if (comm.is_pretended() && outcome.kind == Outcome::Kind::user) throw UserError(outcome.message);
  if (comm.is_pretended() && failed) throw BugError(outcome.message);
  const int mine = failed ? comm.rank() : comm.size();
  int lowest = mine;
  const Wait wait(comm, "an agreement of all ranks on errors (allreduce)");
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, comm.handle());
  if (lowest == comm.size()) return;

  int head[2] = {static_cast<int>(outcome.kind), static_cast<int>(outcome.message.size())};
  MPI_Bcast(head, 2, MPI_INT, lowest, comm.handle());
  std::string message = outcome.message;
  message.resize(static_cast<std::size_t>(head[1]));
  MPI_Bcast(message.data(), head[1], MPI_CHAR, lowest, comm.handle());

  const int same = failed && message == outcome.message ? 1 : 0;
  int all_same = same;
  MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_LAND, comm.handle());
  // A group that failed as a whole has already named its rank.
  if (!all_same && !names_rank(message))
    message = fmt::format("rank {}: {}", rank_in_job(comm, lowest), message);
  if (head[0] == static_cast<int>(Outcome::Kind::user)) throw UserError(message);
  throw BugError(message);
}

std::string broadcast(const Communicator& comm, std::string text, int root) {
  if (comm.is_pretended()) return text;
  const Wait wait(comm, "a broadcast");
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, root, comm.handle());
  text.resize(static_cast<std::size_t>(size));
  constexpr std::int64_t most = 1 << 30;  // MPI counts have 31 bits
  for (std::int64_t at = 0; at < size; at += most)
    MPI_Bcast(text.data() + at, static_cast<int>(std::min(most, size - at)), MPI_CHAR, root, comm.handle());
  return text;
}

void agree_same(const Communicator& comm, std::string_view text, std::string_view what) {
  TextHash hash;
  hash.add(text);
  agree_same(comm, hash.value(), what);
}

void agree_same(const Communicator& comm, std::uint64_t hash, std::string_view what) {
  if (comm.is_pretended()) return;
  std::uint64_t first = hash;
  const Wait wait(comm, "a comparison of what ranks have read (broadcast, allreduce)");
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, comm.handle());
  const int mine = hash == first ? comm.size() : comm.rank();
  int lowest = mine;
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, comm.handle());
  if (lowest < comm.size())
    user_error(
        "rank {}: {} differs from that of rank {}. Let all ranks read the same files on a shared file system",
        rank_in_job(comm, lowest), what, rank_in_job(comm, 0));
}

}  // namespace rossby
