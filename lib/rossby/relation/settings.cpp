#include "rossby/relation/settings.hpp"

namespace rossby {

std::span<const Key<RelationSettings>> relation_keys() {
  static constexpr Key<RelationSettings> table[] = {
      key<&RelationSettings::graph>("relation.graph", "\"none\"", "",
                                    "sparse relations: grid (8 neighbours, one relation), grid8 (8 "
                                    "neighbours, one relation per direction), nearest, edges (of the file), "
                                    "none; auto: edges if the file has them, else grid8 or nearest")
          .one_of("none|auto|grid|grid8|nearest|edges"),
      key<&RelationSettings::file>("relation.file", "\"\"", "",
                                   "NetCDF file with the edges for relation.graph = edges, as 'rossby data "
                                   "graph' writes it; empty: data.file"),
      key<&RelationSettings::mode>(
          "relation.mode", "\"given\"", "",
          "weights of the sparse relations: given: as in the file; refine: learned for the given edges")
          .one_of("given|refine"),
      key<&RelationSettings::hops>("relation.hops", "[1]", "",
                                   "powers of each relation that the model uses, in ascending order")
          .range(1, 64),
      key<&RelationSettings::normalise>("relation.normalise", "true", "",
                                        "divide every row by its sum before taking powers"),
      key<&RelationSettings::self_loops>("relation.self_loops", "false", "",
                                         "add every node to its own neighbours"),
      key<&RelationSettings::periodic_lon>(
          "relation.periodic_lon", "\"auto\"", "",
          "join the east and west edges of a grid; auto: if longitudes cover the whole circle")
          .one_of("auto|yes|no"),
      key<&RelationSettings::neighbours>("relation.neighbours", "8", "",
                                         "number of neighbours of each node for relation.graph = nearest")
          .range(1, 100000),
      key<&RelationSettings::storage>("relation.storage", "\"csr\"", "",
                                      "csr: store non-zeros only; dense: store all n columns")
          .one_of("csr|dense"),
      key<&RelationSettings::precision>(
          "relation.precision", "\"model\"", "",
          "precision of dense learned relations and their moments: model: as model.precision; bf16: two "
          "bytes per value, with arithmetic in float")
          .one_of("model|bf16"),
      key<&RelationSettings::refine_start>("relation.refine_start", "0.5", "",
                                           "initial value of refined weights")
          .read_by("stnn"),
      key<&RelationSettings::self>(
          "relation.self", "false", "",
          "add a relation of each node to itself, with one learned weight per node: clamp(s, 0, 1)"),
      key<&RelationSettings::self_start>("relation.self_start", "0.5", "",
                                         "initial value of the weights of the self relation")
          .read_by("stnn"),
      key<&RelationSettings::discover>(
          "relation.discover", "\"none\"", "",
          "learn a relation between all nodes: dense: clamp(M, 0, 1); low_rank: U(Vᵀz)/n")
          .one_of("none|dense|low_rank"),
      key<&RelationSettings::discover_start>("relation.discover_start", "\"1/n\"", "",
                                             "initial value of M: 1/n, or a number")
          .read_by("stnn"),
      key<&RelationSettings::memory>(
          "relation.memory", "\"resident\"", "",
          "where the dense relation of relation.discover and its moments are stored. resident: in the memory "
          "that the kernels use; streamed: in files, or for a GPU in host memory, and processed in chunks")
          .one_of("resident|streamed")
          .may_change(),
      key<&RelationSettings::chunk_mib>(
          "relation.chunk_mib", "0", "MiB",
          "size of the chunks in which a dense learned relation is processed. Equal sizes give bit-equal "
          "results, streamed or resident. 0: 32 MiB, or less if six chunks do not fit the memory for chunks; "
          "a resident relation on a GPU is one chunk")
          .range(0, 1000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::stream_gib>("relation.stream_gib", "1", "GiB",
                                         "streamed: memory for chunks on each rank or its device, at least "
                                         "two chunks; at most a third of parallel.device_memory is used")
          .range(0, 1000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::transfer>("relation.transfer", "\"pinned-async\"", "",
                                       "streamed to a GPU: copy from pageable or pinned memory; with async, "
                                       "kernels compute during the copies")
          .one_of("pageable|pinned|pageable-async|pinned-async")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::update>(
          "relation.update", "\"auto\"", "",
          "streamed to a GPU: update the relation on the device (bit-equal to resident; moments are copied, "
          "too) or on the host (only gradients are copied); auto: measure both at the start, and take the "
          "host if it saves 10 %")
          .one_of("auto|device|host")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::stream_folder>(
          "relation.stream_folder", "\"\"", "",
          "streamed: folder of the files, best on a local disk; empty: TMPDIR, or /tmp")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::rank>("relation.rank", "20", "",
                                   "rank of the relation: number of columns of U and V")
          .range(1, 4096)
          .read_by("stnn, stid"),
      key<&RelationSettings::low_rank_start>(
          "relation.low_rank_start", "\"random\"", "",
          "initial values. random: U and V are normal numbers / √rank; eof: U = 0, and V = √n · leading EOFs "
          "of the training part (stid: EOFs scaled to variance 1)")
          .one_of("random|eof")
          .read_by("stnn, stid"),
  };
  return table;
}

}  // namespace rossby
