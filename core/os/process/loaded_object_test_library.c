// Opened by loaded_object_test.cc, once with each kind of hash table.
// clang-format off
#define ANSWER(n) \
  int answer_##n(void) { return n; }
#define TEN(n) ANSWER(n##0) ANSWER(n##1) ANSWER(n##2) ANSWER(n##3) ANSWER(n##4) ANSWER(n##5) ANSWER(n##6) ANSWER(n##7) ANSWER(n##8) ANSWER(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)

int answer_of_data = 5;
int puts(const char*);
int answer_of_another(void) { return puts(""); }
