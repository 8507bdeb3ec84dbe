#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/train/config.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::user_message;

KeyValues parse(std::string_view toml, std::vector<std::string> sets = {}) {
  return KeyValues::parse(config_keys(), toml, "run.toml", sets);
}

std::string refusal(std::string_view toml, std::vector<std::string> sets = {}) {
  return user_message([&] { parse(toml, sets); });
}

TEST(Config, TableIsSound) {
  std::set<std::string_view> names;
  for (const KeySpec& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " is there twice";
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_EQ(key.meaning.find('\n'), std::string_view::npos) << key.name;
  }
}

TEST(Config, DefaultsHaveTheirTypes) {
  const KeyValues config(config_keys());
  EXPECT_EQ(config.text("split.train"), "0.7");
  EXPECT_EQ(config.integer("train.epochs"), 100);
  EXPECT_DOUBLE_EQ(config.real("optimiser.epsilon"), 1e-9);
  EXPECT_TRUE(config.flag("relation.normalise"));
  EXPECT_TRUE(config.texts("data.variables").empty());
  EXPECT_EQ(config.integers("relation.hops"), std::vector<Index>{1});
  EXPECT_FALSE(config.given("train.epochs"));
  EXPECT_THROW((void)config.integer("train.epoch"), BugError);
  EXPECT_THROW((void)config.real("train.epochs"), BugError);
}

TEST(Config, FileThenSettingsInOrder) {
  const KeyValues config =
      parse("[train]\nepochs = 7\nseed = 3\n[model]\nname = 'stnn'\n[optimiser]\nlr = 1\n",
            {"train.epochs=8", "train.epochs = 9", "model.activation=tanh", "model.lambda=2"});
  EXPECT_EQ(config.integer("train.epochs"), 9);
  EXPECT_EQ(config.integer("train.seed"), 3);
  EXPECT_DOUBLE_EQ(config.real("optimiser.lr"), 1.0);
  EXPECT_DOUBLE_EQ(config.real("model.lambda"), 2.0);
  EXPECT_EQ(config.text("model.activation"), "tanh");
  EXPECT_TRUE(config.given("train.seed"));
  EXPECT_FALSE(config.given("model.latent"));
}

TEST(Config, DottedKeysAndNestedTablesAreTheSame) {
  EXPECT_EQ(parse("train.epochs = 4").integer("train.epochs"), 4);
  EXPECT_EQ(parse("train = {epochs = 4}").integer("train.epochs"), 4);
}

TEST(Config, TextKeysTakeNumbersAndDates) {
  const KeyValues file = parse("[split]\ntrain = 200\nvalidation = 0.25\ntest = 1986-08-15\n");
  EXPECT_EQ(file.text("split.train"), "200");
  EXPECT_EQ(file.text("split.validation"), "0.25");
  EXPECT_EQ(file.text("split.test"), "1986-08-15");
  EXPECT_EQ(parse("[split]\ntrain = 2012-03-01T06:30:00").text("split.train"), "2012-03-01T06:30");
  const KeyValues set = parse("", {"split.train=200", "split.validation=1986-08", "split.test=1986-08-15"});
  EXPECT_EQ(set.text("split.train"), "200");
  EXPECT_EQ(set.text("split.validation"), "1986-08");
  EXPECT_EQ(set.text("split.test"), "1986-08-15");
  EXPECT_EQ(parse("", {"relation.discover_start=1/n"}).text("relation.discover_start"), "1/n");
  EXPECT_EQ(parse("", {"data.file=\"a b.nc\""}).text("data.file"), "a b.nc");
  EXPECT_EQ(parse("", {"data.file=/tmp/a=b.nc"}).text("data.file"), "/tmp/a=b.nc");
  EXPECT_EQ(parse("", {"data.file=true"}).text("data.file"), "true");
}

TEST(Config, ListsTakeOneElementOrBareWords) {
  EXPECT_EQ(parse("data.variables = 'sst'").texts("data.variables"), std::vector<std::string>{"sst"});
  const std::vector<std::string> two{"tmax", "tmin"};
  EXPECT_EQ(parse("data.variables = ['tmax', 'tmin']").texts("data.variables"), two);
  EXPECT_EQ(parse("", {"data.variables=tmax,tmin"}).texts("data.variables"), two);
  EXPECT_EQ(parse("", {"data.variables=[\"tmax\", \"tmin\"]"}).texts("data.variables"), two);
  EXPECT_EQ(parse("", {"data.variables=sst"}).texts("data.variables"), std::vector<std::string>{"sst"});
  const std::vector<Index> hops{1, 2, 4};
  EXPECT_EQ(parse("", {"relation.hops=[1, 2, 4]"}).integers("relation.hops"), hops);
  EXPECT_EQ(parse("", {"relation.hops=1,2,4"}).integers("relation.hops"), hops);
  EXPECT_EQ(parse("", {"relation.hops=3"}).integers("relation.hops"), std::vector<Index>{3});
}

TEST(Config, UnknownKeyNamesFileLineAndTheNearest) {
  const std::string typo = refusal("[train]\nseed = 1\nepoch = 3\n");
  EXPECT_HAS(typo, "run.toml:3");
  EXPECT_HAS(typo, "train.epoch");
  EXPECT_HAS(typo, "nearest key is train.epochs");
  EXPECT_HAS(refusal("[training]\nepochs = 3\n"), "did you mean train.epochs?");
  EXPECT_HAS(refusal("epochs = 3\n"), "did you mean train.epochs?");
  EXPECT_HAS(refusal("", {"optimizer.lr=1"}), "did you mean optimiser.lr?");
  EXPECT_HAS(refusal("split = 3"), "split.train, split.validation");
  EXPECT_HAS(refusal("[zzz]\nqqqqqqqqqqqqqqq = 3\n"), "rossby config");
}

TEST(Config, WrongTypesAndValues) {
  EXPECT_HAS(refusal("[train]\nepochs = \"ten\"\n"),
             "run.toml:2: train.epochs needs an integer, not a text (ten)");
  EXPECT_HAS(refusal("train.epochs = 1.5"), "needs an integer, not a real number (1.5)");
  EXPECT_HAS(refusal("train.epochs = -1"), "out of range: the value must be 0 to 1000000000");
  EXPECT_HAS(refusal("train.joint = 1"), "needs true or false");
  EXPECT_HAS(refusal("model.lambda = nan"), "not a finite number");
  EXPECT_HAS(refusal("model.lambda = inf"), "not a finite number");
  EXPECT_HAS(refusal("split.train = nan"), "not a finite number");
  EXPECT_HAS(refusal("model.lambda = -0.5"), "at least 0");
  EXPECT_HAS(refusal("model.activation = 'tahn'"), "not one of identity, tanh; the nearest is tanh");
  EXPECT_HAS(refusal("model.activation = true"), "needs a text, not a flag");
  EXPECT_HAS(refusal("model.activation = ['tanh']"), "needs a text, not a list");
  EXPECT_HAS(refusal("relation.hops = [1, 0]"), "out of range: the value must be 1 to 64");
  EXPECT_HAS(refusal("relation.hops = [1, 'x']"), "list of integers");
  EXPECT_HAS(refusal("[train.epochs]\nx = 1"), "train.epochs.x");
  EXPECT_HAS(refusal("train.epochs = 99999999999999999999"), "run.toml:1");
}

TEST(Config, BadTomlAndBadSettings) {
  EXPECT_HAS(refusal("[train]\nepochs = = 3\n"), "run.toml:2: not valid TOML");
  EXPECT_HAS(refusal("train.epochs = 1\ntrain.epochs = 2\n"), "run.toml:2");
  EXPECT_HAS(refusal("", {"train.epochs"}), "--set key=value");
  EXPECT_HAS(refusal("", {"train.epochs="}), "train.epochs needs an integer");
  EXPECT_HAS(refusal("", {"train.epochs=abc"}), "--set train.epochs=abc: train.epochs needs an integer");
  EXPECT_HAS(refusal("", {"model.activation=\"tanh"}), "model.activation");
  EXPECT_HAS(refusal("", {"train.epochs=3\nseed = 4"}).substr(0, 5), "--set");
}

TEST(Config, LoadSaysWhyAFileCannotBeRead) {
  EXPECT_HAS(user_message([] { Config::load("/nowhere/run.toml", {}); }), "/nowhere/run.toml");
  EXPECT_HAS(user_message([] { Config::load("/tmp", {}); }), "/tmp");
  const std::string path = testing::TempDir() + "rossby_config_test.toml";
  std::ofstream(path) << "train.seed = 5\n";
  EXPECT_EQ(KeyValues::load(config_keys(), path, {}).integer("train.seed"), 5);
  std::ofstream(path, std::ios::trunc) << "";
  EXPECT_EQ(KeyValues::load(config_keys(), path, {}).integer("train.seed"), 1);
  std::remove(path.c_str());
  EXPECT_EQ(Config::load("", {}).hash(), Config().hash());
}

TEST(Config, WrittenFormParsesBackToItself) {
  const KeyValues config = parse(
      "data.file = \"a \\\"quoted\\\" \\\\ path\\u0007é.nc\"\nmodel.lambda = 1e-300\noptimiser.lr = 0.1\n",
      {"relation.hops=1,3", "data.variables=a,b", "train.joint=true"});
  const KeyValues again = parse(config.to_toml());
  EXPECT_EQ(again.text("data.file"), config.text("data.file"));
  EXPECT_EQ(again.real("optimiser.lr"), 0.1);
  EXPECT_TRUE(again.differences(config).empty());
  EXPECT_EQ(again.to_toml(), config.to_toml());
  EXPECT_EQ(again.hash(), config.hash());
}

TEST(Config, KeysOfManyPartsAreRefusedNotFollowed) {
  std::string deep = "a";
  for (int i = 0; i < 200'000; ++i) deep += ".a";
  for (const std::string& toml : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}", "\n\n" + deep})
    EXPECT_HAS(refusal(toml), "the key has more than 16 parts");
  EXPECT_HAS(refusal("", {"train.epochs={" + deep + "=1}"}), "train.epochs needs an integer");
  // Dots outside keys do not separate parts.
  const std::string dots(100, '.');
  const KeyValues config =
      parse("# " + dots + "\ndata.file = \"" + dots + "\" # " + dots + "\nmodel.lambda = 1.5\n");
  EXPECT_EQ(config.text("data.file"), dots);
}

TEST(Config, PartsOfKeysAreToldFromTexts) {
  const std::string dots(100, '.');
  std::string deep = "a";
  for (int i = 0; i < 100; ++i) deep += ".a";
  const std::vector<std::pair<std::string, std::string>> texts = {
      {R"('")" + dots + "'", "\"" + dots},    // a quote in a literal string
      {R"("\")" + dots + "\"", "\"" + dots},  // an escaped quote
      {R"("')" + dots + "\"", "'" + dots},    // another kind of quote
      {R"("a\\" # ")" + dots, "a\\"},         // a backslash that escapes no quote
      {"\"\"\"\n" + dots + R"('''\")" + dots + "\n\"\"\"\"\"", dots + "'''\"" + dots + "\n\"\""},  // lines
      {"'''" + dots + "\n\\" + dots + "'''", dots + "\n\\" + dots},
  };
  for (const auto& [written, text] : texts) {
    const KeyValues config = parse("data.file = " + written + "\n");
    EXPECT_EQ(config.text("data.file"), text) << written;
    EXPECT_EQ(parse(config.to_toml()).text("data.file"), text) << written;
  }
  // Keys after strings are still keys.
  for (const std::string before :
       {R"("\"")", R"('\')", "\"\"\"\n\"\"\"", "\"\"\"\n\\\"\"\"\"", "'''\n'''", "\"\"", R"("\\")"})
    EXPECT_HAS(refusal("x = [" + before + ", {" + deep + " = 1}]"), "the key has more than 16 parts")
        << before;
}

TEST(Config, SettingsAreUtf8) {
  for (const char* bytes :
       {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82", "a\x80"})
    EXPECT_HAS(refusal("", {std::string("data.file=") + bytes}), "not valid UTF-8");
  for (const char* text : {"é", "€.nc", "\xf0\x9f\x8c\x8a", "\xed\x9f\xbf"}) {
    const KeyValues config = parse("", {std::string("data.file=") + text});
    EXPECT_EQ(parse(config.to_toml()).text("data.file"), text);
  }
}

TEST(Config, HashSeesMeaningOnly) {
  const KeyValues base(config_keys());
  EXPECT_EQ(base.hash().size(), 16u);
  EXPECT_EQ(parse("", {"train.epochs=7"}).hash(), base.hash()) << "train.epochs may differ in a continuation";
  EXPECT_EQ(parse("model.lambda = 0.10").hash(), base.hash());
  EXPECT_EQ(parse("model.lambda = 0.1\ntrain.seed = 1").hash(), base.hash());
  const KeyValues other = parse("", {"train.seed=2"});
  EXPECT_NE(other.hash(), base.hash());
  const std::vector<std::string> difference{"train.seed: 2 (here) instead of 1"};
  EXPECT_EQ(other.differences(base), difference);
  EXPECT_TRUE(parse("", {"train.epochs=7"}).differences(base).empty());
  const std::vector<std::string> change{"train.epochs = 7 instead of 100"};
  EXPECT_EQ(parse("", {"train.epochs=7", "train.seed=2"}).changes(base), change);
}

// Hashes from before each room had its own table of keys; stored runs are compared with them.
TEST(Config, HashesOfOldRunsStay) {
  EXPECT_EQ(Config().hash(), "ea3db749f6030c56");
  EXPECT_EQ(parse("", {"model.name=graph_wavenet", "relation.hops=1,2", "train.epochs=3", "optimiser.lr=0.5"})
                .hash(),
            "5f0ef55356b80338");
}

TEST(Config, KeysThatCameLaterChangeNoHashByDefault) {
  const KeyTable before = config_keys();
  KeyTable after = before;
  after.push_back({.name = "train.news",
                   .type = KeyType::integer,
                   .default_value = "3",
                   .unit = "",
                   .meaning = "x",
                   .added = true});
  EXPECT_EQ(KeyValues(after).hash(), KeyValues(before).hash());
  EXPECT_EQ(KeyValues::parse(after, "train.news = 3", "", {}).hash(), KeyValues(before).hash());
  EXPECT_NE(KeyValues::parse(after, "train.news = 4", "", {}).hash(), KeyValues(before).hash());
}

TEST(Config, FirstMomentsFollowTheModel) {
  EXPECT_EQ(Config::parse("", "test", {}).optimiser.beta1, 0);
  const Config windows = Config::parse("model.name = \"gru\"", "test", {});
  EXPECT_EQ(windows.optimiser.beta1, 0.9);
  EXPECT_FALSE(windows.given("optimiser.beta1"));
  const std::vector<std::string> stnn = {"model.name=stnn"}, dcrnn = {"model.name=dcrnn"};
  EXPECT_EQ(windows.with(stnn).optimiser.beta1, 0);
  EXPECT_EQ(windows.with(stnn).hash(), Config().hash());
  EXPECT_EQ(windows.with(stnn).with(dcrnn).optimiser.beta1, 0.9);
  EXPECT_EQ(Config::parse("model.name = \"gru\"\noptimiser.beta1 = 0", "test", {}).optimiser.beta1, 0);
  EXPECT_EQ(Config::parse(windows.to_toml(), "test", {}).hash(), windows.hash());
}

TEST(Config, MembersHaveTheValuesOfTheirKeys) {
  const std::vector<std::string> sets{"data.variables=a,b", "split.folds=3",   "relation.hops=1,4",
                                      "model.name=gru",     "window.inputs=5", "optimiser.lr=0.25",
                                      "train.joint=true",   "log.seconds=7"};
  const Config config = Config::parse("", "", sets);
  EXPECT_EQ(config.data.variables, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.split.folds, 3);
  EXPECT_EQ(config.relation.hops, (std::vector<Index>{1, 4}));
  EXPECT_EQ(config.model.architecture->name(), "gru");
  EXPECT_EQ(config.windows()->supports().kind, Supports::Kind::none);
  EXPECT_EQ(config.window.inputs, 5);
  EXPECT_DOUBLE_EQ(config.optimiser.lr, 0.25);
  EXPECT_TRUE(config.train.joint);
  EXPECT_DOUBLE_EQ(config.log.seconds, 7);
  EXPECT_EQ(Config().windows(), nullptr);
}

TEST(Config, EveryModelIsConfiguredAndNamesItself) {
  for (const ModelDescriptor& model : models()) {
    const std::vector<std::string> sets{"model.name=" + std::string(model.name)};
    const Config config = Config::parse("", "", sets);
    EXPECT_EQ(config.model.architecture->name(), model.name);
    EXPECT_EQ(config.windows() != nullptr, model.of_windows) << model.name;
    // A graph has no cost for a model that never reads it.
    if (model.name == "stid")
      EXPECT_EQ(config.model.architecture->entry_cost(2), 0);
    else
      EXPECT_GT(config.model.architecture->entry_cost(2), 0) << model.name;
    EXPECT_EQ(config.windows() && config.windows()->pipeline_layers().count > 0, model.of_layers)
        << model.name;
    EXPECT_FALSE(model.calibration().empty()) << model.name;
    for (const CalibrationCase& of : model.calibration())
      EXPECT_EQ(Config::parse(of.settings, "case", {}).model.name, model.name);
  }
}

TEST(Config, DescriptionHasEveryKey) {
  const std::string text = describe_keys(config_keys());
  for (const KeySpec& key : config_keys()) EXPECT_HAS(text, std::string(key.name) + " ");
  EXPECT_HAS(text, "allowed: identity, tanh");
  EXPECT_HAS(text, "stnn: number d of latents of each node");
  EXPECT_HAS(text, "allowed: 0 to 1000000000; may change when a run goes on");
}

TEST(Config, KeysKnowTheirModels) {
  const auto of = [](std::string_view name) {
    for (const KeySpec& key : config_keys())
      if (key.name == name) return key.models;
    return std::string_view("no such key");
  };
  EXPECT_EQ(of("model.latent"), "stnn");
  EXPECT_EQ(of("model.dropout_z"), "stnn");
  EXPECT_EQ(of("model.dropout"), "graph_wavenet");
  EXPECT_EQ(of("model.block_layers"), "graph_wavenet");
  EXPECT_TRUE(of("model.diffusion_steps").starts_with("dcrnn, gru, graph_wavenet"));
  EXPECT_EQ(of("model.units"), "dcrnn, gru, tgcn");
  EXPECT_EQ(of("model.sampling_decay"), "dcrnn, gru");
  EXPECT_EQ(of("window.fill"), "windows");
  EXPECT_EQ(of("model.layers"), "stnn, dcrnn, gru");
  EXPECT_EQ(of("model.precision"), "");
  EXPECT_EQ(of("data.file"), "");
}

std::vector<std::string> idle(const std::vector<std::string>& sets) {
  return Config::parse("", "", sets).idle();
}

TEST(Config, KeysOfOtherModelsAreIdle) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(idle({"model.latent=7"}), Names());
  EXPECT_EQ(idle({"model.units=7", "model.dropout=0.5"}), (Names{"model.units", "model.dropout"}));
  const std::vector<std::string> gru{"model.name=gru", "model.units=7", "model.latent=7", "model.channels=5"};
  EXPECT_EQ(idle(gru), (Names{"model.latent", "model.channels"}));
  EXPECT_EQ(idle({"model.name=graph_wavenet", "model.channels=5", "model.latent=1"}), Names())
      << "what is set to its default asks for nothing";
}

}  // namespace
}  // namespace rossby
