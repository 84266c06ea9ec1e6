#include <stdio.h>

int main(void)
{
    puts("musterctl");
    return 0;
}
