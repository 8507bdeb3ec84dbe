#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A dimension of a NetCDF file.
struct NetcdfDimension {
  std::string name;
  Index length = 0;
};

/// text stands for all that is no number, other_integer for a file's further integers; written they are a
/// string and 64 bits.
enum class NetcdfType { int8, int32, float32, float64, other_integer, text };

/// A variable of a NetCDF file: its dimensions slowest first.
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

/// One open NetCDF file (serial library), closed by its destructor. Every failure is a UserError that names
/// the file, the variable and the library's reason. Not for use by several threads at once.
class NetcdfFile {
 public:
  /// Opens an existing NetCDF-4 or classic file for reading. Throws UserError where it is missing, not
  /// NetCDF, damaged or shorter than its header says.
  static NetcdfFile open(const std::string& path);

  /// Creates a NetCDF-4 file, replacing one of that name; it is in define mode until `end_define`. Messages
  /// name the file `shown`, or `path` where that is empty.
  static NetcdfFile create(const std::string& path, const std::string& shown = "");

  NetcdfFile(NetcdfFile&& other) noexcept;
  NetcdfFile& operator=(NetcdfFile&& other) noexcept;
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile();

  [[nodiscard]] const std::string& path() const { return path_; }

  // Reading.
  [[nodiscard]] const std::vector<NetcdfVariable>& variables() const { return variables_; }
  [[nodiscard]] const NetcdfVariable* find(std::string_view name) const;
  /// Names of the groups below the root, whose variables are not read.
  [[nodiscard]] std::vector<std::string> groups() const;
  /// A text attribute without what pads it, as UTF-8 (clean_text); none where absent or of another type.
  [[nodiscard]] std::optional<std::string> text(const NetcdfVariable& variable, const char* attribute) const;
  [[nodiscard]] bool has(const NetcdfVariable& variable, const char* attribute) const;
  /// The first value of a numeric attribute, or of the numbers that a text holds.
  [[nodiscard]] std::optional<double> number(const NetcdfVariable& variable, const char* attribute) const;
  /// All of an attribute; empty where it has none, or text that is no list of numbers.
  [[nodiscard]] std::vector<double> numbers(const NetcdfVariable& variable, const char* attribute) const;
  /// Whether a numeric attribute is of a floating type, or a text of numbers that are not whole; false where
  /// it is absent.
  [[nodiscard]] bool is_real(const NetcdfVariable& variable, const char* attribute) const;
  /// Whether packed values become floats: scale_factor and add_offset, those that are there, are floats, and
  /// so are all values that are packed (CF-1.8, chapter 8.1: unpacked data are of the attributes' type).
  [[nodiscard]] bool unpacks_to_float(const NetcdfVariable& variable) const;
  /// Of an integer whose attribute _Unsigned says otherwise than its type: its bits, positive where what is
  /// stored with a sign has none, negative where it has one that it is stored without. 0: as it is stored.
  [[nodiscard]] int bits_of_other_sign(const NetcdfVariable& variable) const;
  /// A global text attribute.
  [[nodiscard]] std::optional<std::string> title(const char* attribute) const;
  /// A hyperslab, converted to T (double, float, Index); out has the product of `count` elements.
  template <class T>
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            T* out) const;
  /// Throws UserError where the variable claims more values than the file can hold: deflate makes 1032 bytes
  /// of one, and what was never written is no data. (A few million values are let pass in any file.)
  void check_claim(const NetcdfVariable& variable) const;
  /// The same of what has to have been written as a whole, coordinates and lists, by bytes: without a filter
  /// the file holds each of them.
  void check_written(const NetcdfVariable& variable) const;
  /// What the library puts where nothing was written, unless the file says otherwise; none for bytes, all of
  /// whose values are in use.
  [[nodiscard]] std::optional<double> default_fill(const NetcdfVariable& variable) const;
  /// The whole of a coordinate, last dimension fastest; _Unsigned, scale_factor and add_offset are applied.
  [[nodiscard]] std::vector<double> read_all(const NetcdfVariable& variable) const;
  /// The elements of a list as text: numbers, strings, or rows of characters. Throws UserError where it is
  /// none of these.
  [[nodiscard]] std::vector<std::string> read_names(const NetcdfVariable& variable) const;
  /// Lengths of the chunks; empty where the variable is contiguous.
  [[nodiscard]] std::vector<Index> chunks(const NetcdfVariable& variable) const;
  /// Bytes of decompressed chunks that are kept for this variable.
  void cache_chunks(const NetcdfVariable& variable, Index bytes) const;

  // Writing.
  int define_dimension(const std::string& name, Index length);
  int define_variable(const std::string& name, NetcdfType type, std::span<const int> dimensions);
  void compress(int variable, std::span<const Index> chunk_lengths, Index cache_bytes);
  void fill_with_nan(int variable, bool wide = false);  // _FillValue, float32 or float64
  void put_text(int variable, const char* attribute, std::string_view value);  // variable −1: global
  void put_flags(int variable, const char* attribute, std::span<const signed char> values);
  void end_define();
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const float* values);
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const double* values);
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const Index* values);
  void write(int variable, std::span<const std::string> values);  // all of a list
  /// Ends writing or reading; throws UserError where the last bytes could not be written. A file that is
  /// written and destroyed without `close` has no defined content.
  void close();

 private:
  NetcdfFile(std::string path, int id) : path_(std::move(path)), id_(id) {}
  void read_header();
  void abandon() noexcept;
  void check(int status, std::string_view variable) const;
  void check_read(int status, const NetcdfVariable& variable) const;
  /// Filters of the variable that HDF5 does not have by itself, and how to get them; empty: none.
  [[nodiscard]] std::string foreign_filters(const NetcdfVariable& variable) const;
  void check_claim(const NetcdfVariable& variable, double bytes_each, double ratio) const;
  [[noreturn]] void cannot_write(int status, int cause) const;

  std::string path_;                      // as messages show it
  std::uint64_t bytes_ = 0;               // of a file that is read
  std::uint64_t device_ = 0, inode_ = 0;  // of a file that is written
  int id_ = -1;                           // of the library; −1: closed
  bool writing_ = false;
  std::vector<NetcdfVariable> variables_;
};

}  // namespace rossby
