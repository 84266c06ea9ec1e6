#include <stdio.h>

int main(void)
{
    puts("muster");
    return 0;
}
