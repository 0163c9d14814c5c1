#include "base/env.h"

#include <gtest/gtest.h>

namespace rlx {
namespace {

TEST(Env, MapsVariables) {
  const std::string_view variables[] = {
      "HOME=/home/u", "RLX_DATA=/d", "RLX_THREADS=3", "RLX_CPU_ISA=avx2",
      "RLX_THREAD=9", "PATH=/bin",   "broken"};
  auto env = parseEnv(variables);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->data, "/d");
  EXPECT_EQ(env->cache, "/home/u/.cache/rlx");
  EXPECT_EQ(env->threads, 3);
  EXPECT_EQ(env->cpuIsa, "avx2");
  EXPECT_EQ(env->unknown, (std::vector<std::string>{"RLX_THREAD"}));
}

TEST(Env, EmptyMeansNotSet) {
  const std::string_view variables[] = {"RLX_THREADS=", "RLX_CACHE=", "HOME="};
  auto env = parseEnv(variables);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->threads, 0);
  EXPECT_EQ(env->cache, "");
}

TEST(Env, RefusesBadNumbers) {
  for (const std::string_view variable :
       {"RLX_THREADS=0", "RLX_THREADS=-1", "RLX_THREADS=257", "RLX_THREADS=two", "RLX_THREADS=2 ",
        "RLX_THREADS=99999999999999"}) {
    auto env = parseEnv(std::span(&variable, 1));
    ASSERT_FALSE(env) << variable;
    EXPECT_EQ(env.error().code(), Errc::InvalidArgument);
    EXPECT_NE(env.error().message().find("RLX_THREADS"), std::string::npos);
  }
}

TEST(Env, EveryVariableIsDocumented) {
  EXPECT_FALSE(envVariables().empty());
  for (const EnvVariable& variable : envVariables()) {
    EXPECT_TRUE(variable.name.starts_with("RLX_"));
    EXPECT_TRUE(variable.text.ends_with(".")) << variable.name;
  }
  EXPECT_TRUE(readEnv());
}

}  // namespace
}  // namespace rlx
