module greenwave/workloads/garbage

go 1.19
