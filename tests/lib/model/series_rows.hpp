#pragma once

#include "rossby/data/series.hpp"

namespace rossby::test {

/// The nodes first, …, last − 1 of a series.
inline Series rows_of(const Series& series, Index first, Index last) {
  Series part(series.steps, last - first, series.features);
  for (Index t = 0; t < series.steps; ++t)
    for (Index i = first; i < last; ++i)
      for (Index f = 0; f < series.features; ++f) part.at(t, i - first, f) = series.at(t, i, f);
  return part;
}

}  // namespace rossby::test
