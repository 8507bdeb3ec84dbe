#include "tests/mpi/message_count.hpp"

#include <map>

#include <mpi.h>

namespace {

rossby::Traffic point_to_point;
rossby::Traffic collective;
std::map<MPI_Request, rossby::Traffic> persistent;

rossby::Traffic message(int count, MPI_Datatype type, int destination, MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  if (destination == rank || destination == MPI_PROC_NULL) return {};
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return {1, rossby::Index{count} * bytes};
}

}  // namespace

extern "C" {

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  point_to_point += message(count, type, to, comm);
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  point_to_point += message(count, type, to, comm);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  point_to_point += message(count, type, to, comm);
  return PMPI_Irsend(data, count, type, to, tag, comm, request);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  point_to_point += message(count, type, to, comm);
  return PMPI_Issend(data, count, type, to, tag, comm, request);
}

int MPI_Send_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const int code = PMPI_Send_init(data, count, type, to, tag, comm, request);
  persistent[*request] = message(count, type, to, comm);
  return code;
}

int MPI_Request_free(MPI_Request* request) {
  persistent.erase(*request);
  return PMPI_Request_free(request);
}

int MPI_Start(MPI_Request* request) {
  if (const auto it = persistent.find(*request); it != persistent.end()) point_to_point += it->second;
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i)
    if (const auto it = persistent.find(requests[i]); it != persistent.end()) point_to_point += it->second;
  return PMPI_Startall(count, requests);
}

int MPI_Iallgatherv(const void* data, int count, MPI_Datatype type, void* out, const int counts[],
                    const int begins[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  for (int p = 0; count > 0 && p < size; ++p) collective += message(count, type, p, comm);
  return PMPI_Iallgatherv(data, count, type, out, counts, begins, out_type, comm, request);
}

int MPI_Ialltoallv(const void* data, const int counts[], const int begins[], MPI_Datatype type, void* out,
                   const int out_counts[], const int out_begins[], MPI_Datatype out_type, MPI_Comm comm,
                   MPI_Request* request) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  for (int p = 0; p < size; ++p)
    if (counts[p] > 0) collective += message(counts[p], type, p, comm);
  return PMPI_Ialltoallv(data, counts, begins, type, out, out_counts, out_begins, out_type, comm, request);
}

}  // extern "C"

namespace rossby::test {

void reset_message_count() {
  point_to_point = collective = {};
}
Traffic messages_sent() {
  return point_to_point;
}
Traffic collective_sent() {
  return collective;
}

}  // namespace rossby::test
