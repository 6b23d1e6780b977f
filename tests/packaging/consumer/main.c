/* Two ranks, threads of this process, sum 1 and 2. Exit status 0 if both hold 3. */
#include <pthread.h>
#include <stdio.h>

#include "ferrule/ferrule.h"

enum { kRanks = 2, kCount = 1000 };

struct rank {
  ferruleComm_t comm;
  float values[kCount];
  ferruleResult_t result;
};

static void* reduce(void* argument) {
  struct rank* self = argument;
  int number = 0;
  ferruleCommRank(self->comm, &number);
  for (int i = 0; i < kCount; ++i) self->values[i] = (float)(number + 1);
  self->result = ferruleAllReduce(self->values, self->values, kCount, ferruleFloat32, ferruleSum, NULL,
                                  self->comm, NULL);
  if (self->result != ferruleSuccess) fprintf(stderr, "consumer: %s\n", ferruleGetLastError());
  return NULL;
}

int main(void) {
  static struct rank ranks[kRanks];
  ferruleComm_t comms[kRanks];
  pthread_t threads[kRanks];
  int good = 1;
  if (ferruleCommInitLocal(comms, kRanks, NULL) != ferruleSuccess) {
    fprintf(stderr, "consumer: %s\n", ferruleGetLastError());
    return 1;
  }
  for (int r = 0; r < kRanks; ++r) {
    ranks[r].comm = comms[r];
    pthread_create(&threads[r], NULL, reduce, &ranks[r]);
  }
  for (int r = 0; r < kRanks; ++r) pthread_join(threads[r], NULL);
  for (int r = 0; r < kRanks; ++r) {
    good = good && ranks[r].result == ferruleSuccess && ranks[r].values[0] == 3 &&
           ranks[r].values[kCount - 1] == 3;
    ferruleCommDestroy(comms[r]);
  }
  if (good) printf("consumer: 2 ranks agree on 3 (Ferrule %s)\n", ferruleVersion());
  return good ? 0 : 1;
}
