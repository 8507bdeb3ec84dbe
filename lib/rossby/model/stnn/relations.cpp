#include "rossby/model/stnn/relations.hpp"

#include <algorithm>
#include <numeric>

#include "rossby/base/release.hpp"
#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

template <class T>
using Kind = typename RelationTerm<T>::Kind;

}  // namespace

template <class T>
Parameter<T>* Relations<T>::make(const std::string& name, Placement placement, std::vector<Index> shape,
                                 double start, bool fusable, bool narrow, std::unique_ptr<ChunkStream> stream,
                                 Memory memory) {
  require(find(name) == nullptr, "two relation terms of one name");
  parameters_.push_back(std::make_unique<Parameter<T>>(name, placement, std::move(shape), fusable, narrow,
                                                       std::move(stream), memory));
  Parameter<T>& parameter = *parameters_.back();
  const auto fill = [](auto& values, auto value) {
    if (values.memory() == Memory::nowhere) return;
    for (Index at = 0; at < values.size(); at += values_at_a_time) {
      std::fill_n(values.data() + at, std::min(values_at_a_time, values.size() - at), value);
      values.forget_pages();
    }
  };
  fill(parameter.value, static_cast<T>(start));
  fill(parameter.bf16, round_nearest(static_cast<float>(start)));
  parameter.first_row = partition_->begin(part_);
  return &parameter;
}

template <class T>
void Relations<T>::add_given(GlobalEdges edges) {
  RelationTerm<T> term;
  term.relations = edges.relations;
  term.fixed = Buffer<T>(edges.entries());
  std::transform(edges.value.begin(), edges.value.end(), term.fixed.begin(),
                 [](double v) { return static_cast<T>(v); });
  bank_.terms.push_back(std::move(term));
  edges_.push_back(std::make_unique<GlobalEdges>(std::move(edges)));
}

template <class T>
void Relations<T>::add_refine(GlobalEdges edges, double start, const std::string& name) {
  RelationTerm<T> term;
  term.relations = edges.relations;
  term.weight = make(name, Placement::entries, {edges.entries()}, start);
  term.weight->relation_term = static_cast<int>(bank_.terms.size());
  bank_.terms.push_back(std::move(term));
  edges_.push_back(std::make_unique<GlobalEdges>(std::move(edges)));
}

template <class T>
void Relations<T>::add_discover(double start, const std::string& name) {
  if (!partition_->identity())
    user_error("a dense relation needs contiguous row blocks. Set parallel.partition = \"blocks\"");
  RelationTerm<T> term;
  term.kind = Kind<T>::dense;
  const Index rows = partition_->size(part_), n = partition_->rows();
  const Index row_bytes = n * static_cast<Index>(bf16_ ? sizeof(Bf16) : sizeof(T));
  std::unique_ptr<ChunkStream> stream;
  if (chunk_bytes_ > 0)
    bank_.dense_chunk_rows = std::max<Index>(1, chunk_bytes_ / std::max<Index>(row_bytes, 1));
  if (stream_) {
    ChunkStreamOptions options = *stream_;
    options.rows = rows;
    options.row_bytes = row_bytes;
    options.chunk_rows = bank_.dense_chunk_rows > 0 ? bank_.dense_chunk_rows : std::max<Index>(rows, 1);
    stream = std::make_unique<ChunkStream>(std::move(options));
  }
  term.weight = make(name, Placement::rows, {1, rows, n}, start, true, bf16_, std::move(stream), memory_);
  bank_.terms.push_back(std::move(term));
  edges_.push_back(nullptr);
}

template <class T>
void Relations<T>::add_dense(const GlobalEdges& edges, bool refine, double start, const std::string& name) {
  if (!partition_->identity())
    user_error("a dense relation needs contiguous row blocks. Set parallel.partition = \"blocks\"");
  const Index rows = edges.rows;
  const Index n = partition_->rows();
  RelationTerm<T> term;
  term.kind = Kind<T>::dense;
  term.relations = edges.relations;
  const Index size = edges.relations * rows * n;
  if (refine) {
    term.weight = make(name, Placement::rows, {edges.relations, rows, n}, start, true, bf16_);
    term.pattern.assign(static_cast<std::size_t>(size), 0);
  } else {
    term.fixed = Buffer<T>(size);
  }
  for (Index i = 0; i < rows; ++i)
    for (int k = 0; k < edges.relations; ++k)
      for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e) {
        const Index at = (k * rows + i) * n + edges.column[static_cast<std::size_t>(e)].value;
        if (refine)
          term.pattern[static_cast<std::size_t>(at)] = 1;
        else
          term.fixed[at] = static_cast<T>(edges.value[static_cast<std::size_t>(e)]);
      }
  if (refine)
    for (Index e = 0; e < size; ++e)
      if (!term.pattern[static_cast<std::size_t>(e)]) {
        if (bf16_)
          term.weight->bf16[e] = {};
        else
          term.weight->value[e] = 0;
      }
  bank_.terms.push_back(std::move(term));
  edges_.push_back(nullptr);
}

template <class T>
void Relations<T>::add_low_rank(Index rank) {
  RelationTerm<T> term;
  term.kind = Kind<T>::low_rank;
  const Index rows = partition_->size(part_);
  term.u = make("low_rank_u", Placement::rows, {1, rows, rank}, 0, true);
  term.v = make("low_rank_v", Placement::rows, {1, rows, rank}, 0, true);
  bank_.terms.push_back(std::move(term));
  edges_.push_back(nullptr);
}

template <class T>
void Relations<T>::add_self(double start) {
  RelationTerm<T> term;
  term.kind = Kind<T>::self;
  term.weight = make("self_weight", Placement::rows, {1, partition_->size(part_), 1}, start);
  bank_.terms.push_back(std::move(term));
  edges_.push_back(nullptr);
}

template <class T>
bool Relations<T>::needs_all() const {
  return std::any_of(bank_.terms.begin(), bank_.terms.end(),
                     [](const auto& t) { return t.kind == Kind<T>::dense; });
}

template <class T>
GhostList Relations<T>::ghosts() const {
  if (needs_all() && partition_->parts() > 1) {
    GhostList all(static_cast<std::size_t>(partition_->rows()));
    for (Index p = 0; p < partition_->rows(); ++p) all[static_cast<std::size_t>(p)] = Position{p};
    return all;
  }
  std::vector<const GlobalEdges*> groups;
  for (const auto& edges : edges_)
    if (edges) groups.push_back(edges.get());
  return collect_ghosts(*partition_, part_, groups);
}

template <class T>
void Relations<T>::finish(Exchange& exchange, Reducer& reducer) {
  const GhostList list = ghosts();
  require(exchange.owned() == partition_->size(part_), "the exchange must own the rank's rows");
  require(exchange.ghosts() == static_cast<Index>(list.size()),
          "the exchange must gather the relations' ghosts");
  bank_.nodes = partition_->rows();
  bank_.rows = partition_->size(part_);
  bank_.exchange = &exchange;
  bank_.reducer = &reducer;
  for (std::size_t i = 0; i < bank_.terms.size(); ++i) {
    if (!edges_[i]) continue;
    blocks_.push_back(std::make_unique<CsrBlock>(localise(*edges_[i], *partition_, part_, list)));
    release(blocks_.back()->value);  // the term holds the weights in its own precision
    bank_.terms[i].sparse = blocks_.back().get();
    // Learned weights keep their pattern for checkpoints; the rest is not needed again.
    release(edges_[i]->value);
    edges_[i]->ptr.shrink_to_fit();
    edges_[i]->column.shrink_to_fit();
    if (!bank_.terms[i].weight) edges_[i].reset();
  }
  bank_.classify_rows();
  bank_.name_op();
}

template <class T>
Parameter<T>* Relations<T>::find(const std::string& name) const {
  for (const auto& parameter : parameters_)
    if (parameter->name == name) return parameter.get();
  return nullptr;
}

template <class T>
const GlobalEdges& Relations<T>::edges(const Parameter<T>& parameter) const {
  require(parameter.relation_term >= 0, "not a parameter of entries");
  return *edges_[static_cast<std::size_t>(parameter.relation_term)];
}

template <class T>
Index Relations<T>::entries() const {
  Index count = 0;
  for (const auto& block : blocks_) count += block->entries();
  return count;
}

template <class T>
std::size_t Relations<T>::list_bytes() const {
  std::size_t bytes = 0;
  for (const auto& edges : edges_)
    if (edges) bytes += edges->bytes();
  return bytes;
}

template class Relations<float>;
template class Relations<double>;

}  // namespace rossby
