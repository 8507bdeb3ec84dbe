#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A dimension of a file of arrays.
struct NetcdfDimension {
  std::string name;
  Index length = 0;
};

/// text stands for all that is no number, other_integer for a file's further integers; written they are a
/// string and 64 bits.
enum class NetcdfType { int8, int32, float32, float64, other_integer, text };

/// A variable of a file of arrays: its dimensions slowest first.
struct NetcdfVariable {
  int id = -1;
  std::string name;
  NetcdfType type = NetcdfType::text;
  std::vector<NetcdfDimension> dimensions;

  [[nodiscard]] Index size() const;  // product of the lengths; throws UserError where it passes 2^63
};

/// Refuses what the machine cannot hold: throws UserError "what: …" where count·width bytes pass half of its
/// memory or overflow. For sizes that a file claims, before memory is taken for them.
void check_memory(Index count, Index width, const std::string& what);

/// Named arrays with attributes in the data model of NetCDF and CF, open for reading: a NetCDF file or a Zarr
/// store. Every failure is a UserError that names the file, the variable and the reason. Not for use by
/// several threads at once.
class ArrayFile {
 public:
  /// A NetCDF file, or a folder that is a Zarr store. Throws UserError where it is missing, neither, damaged
  /// or shorter than its header says.
  static std::unique_ptr<ArrayFile> open(const std::string& path);

  virtual ~ArrayFile() = default;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<NetcdfVariable>& variables() const { return variables_; }
  [[nodiscard]] const NetcdfVariable* find(std::string_view name) const;
  /// Names of the groups below the root, whose variables are not read.
  [[nodiscard]] virtual std::vector<std::string> groups() const = 0;

  /// A text attribute without what pads it, as UTF-8 (clean_text); none where absent or of another type.
  [[nodiscard]] virtual std::optional<std::string> text(const NetcdfVariable& variable,
                                                        const char* attribute) const = 0;
  [[nodiscard]] virtual bool has(const NetcdfVariable& variable, const char* attribute) const = 0;
  /// All of a numeric attribute, or of the numbers that a text holds; empty where it has none, or text that
  /// is no list of numbers.
  [[nodiscard]] virtual std::vector<double> numbers(const NetcdfVariable& variable,
                                                    const char* attribute) const = 0;
  /// The first of them.
  [[nodiscard]] std::optional<double> number(const NetcdfVariable& variable, const char* attribute) const;
  /// Whether a numeric attribute is of a floating type, or a text of numbers that are not whole; false where
  /// it is absent.
  [[nodiscard]] virtual bool is_real(const NetcdfVariable& variable, const char* attribute) const = 0;
  /// Whether packed values become floats: scale_factor and add_offset, those that are there, are floats, and
  /// so are all values that are packed (CF-1.8, chapter 8.1: unpacked data are of the attributes' type).
  [[nodiscard]] virtual bool unpacks_to_float(const NetcdfVariable& variable) const = 0;
  /// Of an integer whose attribute _Unsigned says otherwise than its type: its bits, positive where what is
  /// stored with a sign has none, negative where it has one that it is stored without. 0: as it is stored.
  [[nodiscard]] virtual int bits_of_other_sign(const NetcdfVariable& variable) const = 0;
  /// A global text attribute.
  [[nodiscard]] virtual std::optional<std::string> title(const char* attribute) const = 0;

  /// A hyperslab, converted to double, float or Index; out has the product of `count` elements.
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, float* out) const = 0;
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, double* out) const = 0;
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, Index* out) const = 0;
  /// Throws UserError where the variable claims more values than the file can hold: deflate makes 1032 bytes
  /// of one, and what was never written is no data. (A few million values are let pass in any file.)
  virtual void check_claim(const NetcdfVariable& variable) const = 0;
  /// The same of what has to have been written as a whole, coordinates and lists, by bytes: without a filter
  /// the file holds each of them.
  virtual void check_written(const NetcdfVariable& variable) const = 0;
  /// What stands where nothing was written, unless the file says otherwise; none for bytes, all of whose
  /// values are in use.
  [[nodiscard]] virtual std::optional<double> default_fill(const NetcdfVariable& variable) const = 0;
  /// The whole of a coordinate, last dimension fastest; _Unsigned, scale_factor and add_offset are applied.
  [[nodiscard]] std::vector<double> read_all(const NetcdfVariable& variable) const;
  /// The elements of a list as text: numbers, strings, or rows of characters. Throws UserError where it is
  /// none of these.
  [[nodiscard]] std::vector<std::string> read_names(const NetcdfVariable& variable) const;
  /// Lengths of the chunks; empty where the variable is contiguous.
  [[nodiscard]] virtual std::vector<Index> chunks(const NetcdfVariable& variable) const = 0;
  /// Arrays that are left out because of how they are stored, a line each that says why.
  [[nodiscard]] virtual const std::vector<std::string>& unreadable() const;
  /// What a reader of the log should know of how a variable's values are read; empty: nothing.
  [[nodiscard]] virtual std::string remark(const NetcdfVariable& /*variable*/) const { return ""; }
  /// Bytes of decompressed chunks that are kept for this variable.
  virtual void cache_chunks(const NetcdfVariable& variable, Index bytes) const = 0;
  /// Gives back what an open file takes of the system: a descriptor and, in HDF5, 0.7 MiB of memory. Between
  /// `pause` and `resume` only names and dimensions are known.
  virtual void pause() noexcept = 0;
  /// Throws UserError if the file is not the one that was paused.
  virtual void resume() = 0;

 protected:
  explicit ArrayFile(std::string path) : path_(std::move(path)) {}
  ArrayFile(ArrayFile&&) noexcept = default;
  ArrayFile& operator=(ArrayFile&&) noexcept = default;
  /// read_names of a variable of texts.
  [[nodiscard]] virtual std::vector<std::string> read_texts(const NetcdfVariable& variable) const = 0;

  std::string path_;  // as messages show it
  std::vector<NetcdfVariable> variables_;
};

}  // namespace rossby
