#include "rossby/mpi/nccl_link.hpp"

#include <exception>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

NcclLink::NcclLink(const Communicator& comm, Device& device, const NcclApi* api)
    : api_(api), device_(&device), rank_(comm.rank()), ranks_(comm.size()) {
  agree(comm, [&] {
    if (!api_) user_error("NCCL (libnccl.so.2) is not installed. Set parallel.transport = \"host\"");
  });
  NcclApi::Id id{};
  agree(comm, [&] {
    if (rank_ == 0) check(api_->unique_id(&id), "making an id");
  });
  {
    const Wait wait(comm, "the set-up of NCCL");
    MPI_Bcast(id.bytes, sizeof id.bytes, MPI_CHAR, 0, comm.handle());
  }
  try {
    agree(comm, [&] { check(api_->comm_init(&comm_, ranks_, id, rank_), "joining the other ranks"); });
  } catch (...) {
    // Abort a communicator that lacks a rank, because an orderly destruction may wait for that rank.
    if (comm_) (void)api_->comm_abort(comm_);
    throw;
  }
}

NcclLink::~NcclLink() {
  if (!comm_) return;
  // A rank that fails alone must not wait for the others here.
  (void)(std::uncaught_exceptions() > 0 ? api_->comm_abort(comm_) : api_->comm_destroy(comm_));
}

void NcclLink::check(int error, const char* what) const {
  if (error != 0)
    user_error("NCCL failed while {}: {}. Set parallel.transport = \"host\"", what, api_->error_text(error));
}

void NcclLink::begin() {
  check(api_->async_error(comm_), "it exchanged");
  device_->driver().fork();
  check(api_->group_start(), "beginning a group");
}

void NcclLink::send(const void* from, std::size_t bytes, int peer) {
  if (bytes > 0) check(api_->send(from, bytes, peer, comm_, device_->driver().side_queue()), "sending");
}

void NcclLink::receive(void* to, std::size_t bytes, int peer) {
  if (bytes > 0) check(api_->receive(to, bytes, peer, comm_, device_->driver().side_queue()), "receiving");
}

void NcclLink::all_reduce(void* values, std::size_t count, bool is_double) {
  if (count > 0)
    check(api_->all_reduce(values, count, is_double, comm_, device_->driver().side_queue()),
          "summing over ranks");
}

void NcclLink::end() {
  check(api_->group_end(), "exchanging");
}

std::shared_ptr<NcclLink> try_nccl(const Communicator& comm, Device& device, std::string& why,
                                   const NcclApi* api) {
  try {
    return std::make_shared<NcclLink>(comm, device, api);
  } catch (const UserError& error) {  // the same one on all ranks
    why = error.what();
    return nullptr;
  }
}

}  // namespace rossby
