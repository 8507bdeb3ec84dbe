#include "rossby/relation/settings.hpp"

namespace rossby {

std::span<const Key<RelationSettings>> relation_keys() {
  static constexpr Key<RelationSettings> table[] = {
      key<&RelationSettings::graph>(
          "relation.graph", "\"none\"", "",
          "sparse relations: grid (8 neighbours, one relation), grid8 (one a direction), nearest, edges (of "
          "the file), none; auto: edges where the file has them, else grid8 or nearest")
          .one_of("none|auto|grid|grid8|nearest|edges"),
      key<&RelationSettings::file>(
          "relation.file", "\"\"", "",
          "NetCDF file with the edges for graph = edges, as 'rossby data graph' writes it; empty: data.file"),
      key<&RelationSettings::mode>("relation.mode", "\"given\"", "",
                                   "their weights: given, or refine (learned on their pattern)")
          .one_of("given|refine"),
      key<&RelationSettings::hops>("relation.hops", "[1]", "",
                                   "powers of each relation that are used, ascending")
          .range(1, 64),
      key<&RelationSettings::normalise>("relation.normalise", "true", "",
                                        "divide every row by its sum before taking powers"),
      key<&RelationSettings::self_loops>("relation.self_loops", "false", "",
                                         "add every node to its own neighbours"),
      key<&RelationSettings::periodic_lon>(
          "relation.periodic_lon", "\"auto\"", "",
          "join the east and west edge of a grid; auto: where longitudes go round")
          .one_of("auto|yes|no"),
      key<&RelationSettings::neighbours>("relation.neighbours", "8", "",
                                         "neighbours a node for graph = nearest")
          .range(1, 100000),
      key<&RelationSettings::storage>("relation.storage", "\"csr\"", "",
                                      "csr: non-zeros only; dense: all n columns")
          .one_of("csr|dense"),
      key<&RelationSettings::precision>("relation.precision", "\"model\"", "",
                                        "dense learned relations and their moments: model: as "
                                        "model.precision; bf16: two bytes a value, arithmetic in float")
          .one_of("model|bf16"),
      key<&RelationSettings::refine_start>("relation.refine_start", "0.5", "", "start of refined weights")
          .read_by("stnn"),
      key<&RelationSettings::self>("relation.self", "false", "",
                                   "a self relation with one learned weight a node, clamp(s, 0, 1)"),
      key<&RelationSettings::self_start>("relation.self_start", "0.5", "", "start of its weights")
          .read_by("stnn"),
      key<&RelationSettings::discover>(
          "relation.discover", "\"none\"", "",
          "a learned all-to-all relation: dense clamp(M, 0, 1), or low rank U(Vᵀz)/n")
          .one_of("none|dense|low_rank"),
      key<&RelationSettings::discover_start>("relation.discover_start", "\"1/n\"", "",
                                             "start of M: 1/n, or a number")
          .read_by("stnn"),
      key<&RelationSettings::memory>(
          "relation.memory", "\"resident\"", "",
          "where the dense relation of relation.discover and its moments are: where kernels work on them, or "
          "streamed there from files, or to a device from the host's memory (one of relation.graph that is "
          "dense stays where kernels are)")
          .one_of("resident|streamed")
          .may_change(),
      key<&RelationSettings::chunk_mib>(
          "relation.chunk_mib", "0", "MiB",
          "rows of a dense learned relation that are worked on at once, by the size of their weights; the "
          "same chunks give the same bits streamed or not; 0: 32, less where six do not fit the memory for "
          "chunks, or all of a relation that lies on a device")
          .range(0, 1000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::stream_gib>("relation.stream_gib", "1", "GiB",
                                         "streamed: memory of a rank, or of its device, for chunks, two at "
                                         "least; no more than a third of parallel.device_memory is taken")
          .range(0, 1000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::transfer>("relation.transfer", "\"pinned-async\"", "",
                                       "streamed to a device: from memory as it is (pageable) or from pinned "
                                       "memory, while the host waits or (async) beside the kernels")
          .one_of("pageable|pinned|pageable-async|pinned-async")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::update>(
          "relation.update", "\"auto\"", "",
          "streamed to a device: updated there, moments travelling too (the bits of resident), or on the "
          "host, to which gradients travel; auto: tried at the start, the host where it saves a tenth")
          .one_of("auto|device|host")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::stream_folder>(
          "relation.stream_folder", "\"\"", "",
          "streamed: folder of the files, on a disk of the node's own; empty: TMPDIR, or /tmp")
          .may_change()
          .read_by("stnn"),
      key<&RelationSettings::rank>("relation.rank", "20", "", "columns of U and V")
          .range(1, 4096)
          .read_by("stnn, stid"),
      key<&RelationSettings::low_rank_start>("relation.low_rank_start", "\"random\"", "",
                                             "random: U, V normal/√rank; eof: U = 0, V = √n · leading EOFs "
                                             "of the training part (stid: amplitudes "
                                             "of variance 1)")
          .one_of("random|eof")
          .read_by("stnn, stid"),
  };
  return table;
}

}  // namespace rossby
