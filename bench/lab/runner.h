// What is timed in turns: a name, how a launch of it is issued, and what it took.
#pragma once
#include "host.h"
#include <algorithm>
#include <functional>
#include <unistd.h>

enum { REST_US = 8000, LAUNCHES = 8 };

struct Runner {
    std::string name;
    std::function<void(int)> issue;  // the n-th launch
    std::vector<double> us;
    double median() {
        std::sort(us.begin(), us.end());
        return us[us.size() / 2];
    }
    // After a rest and a launch that does not count.
    void time(cudaEvent_t begin, cudaEvent_t end) {
        usleep(REST_US);
        issue(1);
        CHECK(cudaEventRecord(begin));
        for (int i = 0; i < LAUNCHES; ++i) issue(i);
        CHECK(cudaEventRecord(end)), CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        us.push_back(ms * 1000 / LAUNCHES);
    }
};
