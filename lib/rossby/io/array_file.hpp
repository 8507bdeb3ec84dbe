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

/// `text` stands for everything that is no number, and `other_integer` for a file's further integer types.
/// When written, they become strings and 64-bit integers.
enum class NetcdfType { int8, int32, float32, float64, other_integer, text };

/// A variable of a file of arrays: its dimensions slowest first.
struct NetcdfVariable {
  int id = -1;
  std::string name;
  NetcdfType type = NetcdfType::text;
  std::vector<NetcdfDimension> dimensions;

  [[nodiscard]] Index size() const;  // product of the lengths
};

/// Throws UserError "what: …" if count·width bytes overflow or pass half of the machine's memory. Call before
/// allocating memory for a size that a file claims.
void check_memory(Index count, Index width, const std::string& what);

/// Named arrays with attributes in the data model of NetCDF and CF, open for reading: a NetCDF file or a Zarr
/// store. Every failure is a UserError with the file, the variable and the reason. Not thread-safe.
class ArrayFile {
 public:
  /// Opens a NetCDF file, or a folder that is a Zarr store. Throws UserError if it is missing, neither of the
  /// two, damaged, or shorter than its header says.
  static std::unique_ptr<ArrayFile> open(const std::string& path);

  virtual ~ArrayFile() = default;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<NetcdfVariable>& variables() const { return variables_; }
  [[nodiscard]] const NetcdfVariable* find(std::string_view name) const;
  /// Returns the names of the groups below the root, whose variables are not read.
  [[nodiscard]] virtual std::vector<std::string> groups() const = 0;

  /// Returns a text attribute without padding, as UTF-8 (clean_text); none if it is absent or of another
  /// type.
  [[nodiscard]] virtual std::optional<std::string> text(const NetcdfVariable& variable,
                                                        const char* attribute) const = 0;
  [[nodiscard]] virtual bool has(const NetcdfVariable& variable, const char* attribute) const = 0;
  /// Returns all values of a numeric attribute, or the numbers that a text lists. Empty if there are none, or
  /// if the text is no list of numbers.
  [[nodiscard]] virtual std::vector<double> numbers(const NetcdfVariable& variable,
                                                    const char* attribute) const = 0;
  /// Returns the first of these numbers.
  [[nodiscard]] std::optional<double> number(const NetcdfVariable& variable, const char* attribute) const;
  /// True if a numeric attribute has a floating type, or is a text of numbers that are not whole; false if it
  /// is absent.
  [[nodiscard]] virtual bool is_real(const NetcdfVariable& variable, const char* attribute) const = 0;
  /// True if packed values become floats: all present ones of scale_factor and add_offset are floats, and all
  /// packed values fit into floats (CF-1.8, chapter 8.1: unpacked data have the attributes' type).
  [[nodiscard]] virtual bool unpacks_to_float(const NetcdfVariable& variable) const = 0;
  /// The number of bits of an integer whose attribute _Unsigned contradicts its type: positive if a signed
  /// type holds unsigned values, negative if an unsigned type holds signed ones. 0 if values are read as
  /// stored.
  [[nodiscard]] virtual int bits_of_other_sign(const NetcdfVariable& variable) const = 0;
  /// Returns a global text attribute.
  [[nodiscard]] virtual std::optional<std::string> title(const char* attribute) const = 0;

  /// Reads a hyperslab, converted to double, float or Index; out has the product of `count` elements.
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, float* out) const = 0;
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, double* out) const = 0;
  virtual void read(const NetcdfVariable& variable, std::span<const Index> start,
                    std::span<const Index> count, Index* out) const = 0;
  /// Throws UserError if the variable claims more values than the file can hold. Deflate makes at most 1032
  /// bytes of one, and unwritten values are not data. (Any file may claim a few million values.)
  virtual void check_claim(const NetcdfVariable& variable) const = 0;
  /// The same check for coordinates and lists, which must have been written whole. It counts bytes: without a
  /// filter the file holds each of them.
  virtual void check_written(const NetcdfVariable& variable) const = 0;
  /// The value of unwritten elements, unless the file names another. None for bytes, all of whose values are
  /// in use.
  [[nodiscard]] virtual std::optional<double> default_fill(const NetcdfVariable& variable) const = 0;
  /// Reads a whole coordinate, last dimension fastest; _Unsigned, scale_factor and add_offset are applied.
  [[nodiscard]] std::vector<double> read_all(const NetcdfVariable& variable) const;
  /// Reads the elements of a list as text: numbers, strings or rows of characters. Throws UserError if the
  /// list is none of these.
  [[nodiscard]] std::vector<std::string> read_names(const NetcdfVariable& variable) const;
  /// Lengths of the chunks; empty if the variable is contiguous.
  [[nodiscard]] virtual std::vector<Index> chunks(const NetcdfVariable& variable) const = 0;
  /// Arrays that cannot be read because of how they are stored, with the reason; one line each.
  [[nodiscard]] virtual const std::vector<std::string>& unreadable() const;
  /// A note for the log on how a variable's values are read; empty if there is none.
  [[nodiscard]] virtual std::string remark(const NetcdfVariable& /*variable*/) const { return ""; }
  /// Sets the bytes of decompressed chunks to keep for this variable.
  virtual void cache_chunks(const NetcdfVariable& variable, Index bytes) const = 0;
  /// Releases an open file's system resources: a descriptor and, in HDF5, 0.7 MiB of memory. Between `pause`
  /// and `resume` only names and dimensions are available.
  virtual void pause() noexcept = 0;
  /// Throws UserError if the file is not the one that was paused.
  virtual void resume() = 0;

 protected:
  explicit ArrayFile(std::string path) : path_(std::move(path)) {}
  ArrayFile(ArrayFile&&) noexcept = default;
  ArrayFile& operator=(ArrayFile&&) noexcept = default;
  /// read_names of a variable of texts.
  [[nodiscard]] virtual std::vector<std::string> read_texts(const NetcdfVariable& variable) const = 0;
  /// Adds a variable to variables(). Throws UserError if it claims more than 2^63 values.
  void add(NetcdfVariable variable);

  std::string path_;  // as shown in messages
  std::vector<NetcdfVariable> variables_;
};

}  // namespace rossby
